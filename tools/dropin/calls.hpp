// What Tutti's libnccl.so.2 does with each of NCCL's functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tutti::tools {

enum class CallState : unsigned char {
  kNative,   ///< works
  kRefused,  ///< exported, and always an error that says so
  kMissing,  ///< not exported: a program that links it does not start
};

constexpr std::string_view name_of(CallState state) {
  constexpr std::string_view kNames[] = {"native", "refused", "missing"};
  return kNames[static_cast<std::size_t>(state)];
}

/// `name` is ncclX; pncclX is the same call. As include/tutti/nccl_functions.def has it, from which
/// the library is made.
CallState call_state(std::string_view name);

/// Whether it could be the name of one of NCCL's functions: ncclX or pncclX.
bool is_nccl_call(std::string_view name);
/// ncclX of pncclX; anything else as it is.
std::string_view without_profiling_prefix(std::string_view name);

/// The ncclX and pncclX that stand as whole strings in a file's bytes, sorted, once each.
std::vector<std::string> nccl_names_in(std::string_view bytes);

}  // namespace tutti::tools
