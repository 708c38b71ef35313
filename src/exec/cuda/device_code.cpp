#include "src/exec/cuda/device_code.hpp"

#if defined(TUTTI_DEVICE_CODE)
// Nothing but an assembler takes a file as it is without making megabytes of source of it.
asm(".pushsection .rodata\n"
    ".balign 64\n"
    ".globl tutti_device_code_begin\n"
    ".hidden tutti_device_code_begin\n"
    "tutti_device_code_begin:\n"
    ".incbin \"" TUTTI_DEVICE_CODE
    "\"\n"
    ".globl tutti_device_code_end\n"
    ".hidden tutti_device_code_end\n"
    "tutti_device_code_end:\n"
    ".popsection\n");
extern "C" {
[[gnu::visibility("hidden")]] extern const std::byte tutti_device_code_begin[];
[[gnu::visibility("hidden")]] extern const std::byte tutti_device_code_end[];
}
#endif

namespace tutti::exec::cuda {

std::span<const std::byte> device_code() {
#if defined(TUTTI_DEVICE_CODE)
  return {tutti_device_code_begin, tutti_device_code_end};
#elif defined(TUTTI_SANITIZED)
  // Such builds run on the driver in memory, to which any bytes are a module with its kernels.
  static constexpr std::byte kNoCode[1] = {};
  return kNoCode;
#else
  return {};
#endif
}

std::string interpret_kernel(DataType type) {
  return "tutti_interpret_" + std::string(name_of(type));
}

std::string combine_kernel(DataType type) { return "tutti_combine_" + std::string(name_of(type)); }

}  // namespace tutti::exec::cuda
