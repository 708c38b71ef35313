#include "src/reduce/reduce.hpp"

#include <cstring>
#include <string_view>

#include "src/reduce/choice.hpp"

namespace tutti {
namespace {

/// Below this, memcpy of the C library is as fast and needs no set-up.
constexpr std::size_t kSmallCopyBytes = 256;

const KernelTable& active_kernels() {
  static const KernelTable& chosen = kernels_for(process_environment());
  return chosen;
}

bool is_copy(const Reduction& reduction, std::size_t sources, std::uint64_t scaled) {
  if (sources != 1) return false;
  if (reduction.op == ReduceOp::kAvg) return reduction.divisor == 0;
  return reduction.op != ReduceOp::kPreMulSum || (scaled & 1) == 0;
}

}  // namespace

std::size_t usable_kernels(const KernelTable** tables) {
  std::size_t count = 0;
  tables[count++] = &kScalarKernels;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("x86-64-v2")) tables[count++] = &kBaselineKernels;
  if (__builtin_cpu_supports("x86-64-v3")) tables[count++] = &kAvx2Kernels;
  if (__builtin_cpu_supports("x86-64-v4")) tables[count++] = &kAvx512Kernels;
#elif defined(__aarch64__)
  tables[count++] = &kBaselineKernels;
#endif
  return count;
}

const KernelTable& choose_kernels(std::string_view wanted) {
  const KernelTable* tables[kMaxKernelTables];
  const std::size_t count = usable_kernels(tables);
  for (std::size_t i = 0; i < count; ++i) {
    if (wanted == tables[i]->name) return *tables[i];
  }
  return *tables[count - 1];
}

const KernelTable& kernels_for(const Environment& environment) {
  const auto settings = Settings::load(environment);
  return choose_kernels(settings ? settings->text("SIMD") : Settings().text("SIMD"));
}

void reduce(const Reduction& reduction, std::span<const std::byte* const> sources,
            std::uint64_t scaled, std::span<const Destination> destinations, std::size_t count) {
  if (count == 0) return;
  if (is_copy(reduction, sources.size(), scaled)) {
    return copy_bytes(sources[0], destinations, count * size_of(reduction.type));
  }
  const ReducePass pass{&reduction,          sources.data(),      sources.size(), scaled,
                        destinations.data(), destinations.size(), count};
  const auto type = static_cast<std::size_t>(reduction.type);
  const auto op = static_cast<std::size_t>(reduction.op);
  active_kernels().reduce[type][op](pass);
}

void copy_bytes(const std::byte* source, std::span<const Destination> destinations,
                std::size_t bytes) {
  if (bytes >= kSmallCopyBytes) {
    return active_kernels().copy(source, destinations.data(), destinations.size(), bytes);
  }
  for (const Destination& destination : destinations) {
    std::memmove(destination.data, source, bytes);
  }
}

std::string_view simd_target() { return active_kernels().name; }

}  // namespace tutti
