#include "src/base/code_address.hpp"

#include <cstdint>
#include <cstdlib>
#include <memory>

#include <cxxabi.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

namespace tutti {
namespace {

constexpr std::size_t kLongestSymbol = 120;

std::string readable(const char* symbol) {
  int failed = 0;
  const std::unique_ptr<char, void (*)(void*)> demangled(
      abi::__cxa_demangle(symbol, nullptr, nullptr, &failed), std::free);
  std::string text = failed == 0 ? demangled.get() : symbol;
  if (text.size() > kLongestSymbol) text.replace(kLongestSymbol - 3, std::string::npos, "...");
  return text;
}

}  // namespace

std::string describe_code_address(const void* address) {
  const auto number = reinterpret_cast<std::uintptr_t>(address);
  Dl_info info{};
  link_map* module = nullptr;
  if (::dladdr1(address, &info, reinterpret_cast<void**>(&module), RTLD_DL_LINKMAP) == 0 ||
      info.dli_fname == nullptr || module == nullptr)
    return fmt::format("{:#x}", number);
  if (info.dli_sname == nullptr)  // l_addr, not the base: programs at fixed addresses have 0
    return fmt::format("{}(+{:#x})", info.dli_fname, number - module->l_addr);
  return fmt::format("{}({}+{:#x})", info.dli_fname, readable(info.dli_sname),
                     number - reinterpret_cast<std::uintptr_t>(info.dli_saddr));
}

}  // namespace tutti
