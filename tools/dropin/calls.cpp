#include "tools/dropin/calls.hpp"

#include <algorithm>
#include <cctype>
#include <set>

namespace tutti::tools {
namespace {

struct Call {
  std::string_view name;
  CallState state;
};

constexpr Call kCalls[] = {
#define TUTTI_NCCL(result, name, parameters, arguments) {"nccl" #name, CallState::kNative},
#define TUTTI_NCCL_ABSENT(result, name, parameters, arguments, since, failure) \
  {"nccl" #name, CallState::kRefused},
#include "tutti/nccl_functions.def"
};

}  // namespace

CallState call_state(std::string_view name) {
  const auto* at = std::ranges::find(kCalls, without_profiling_prefix(name), &Call::name);
  return at == std::end(kCalls) ? CallState::kMissing : at->state;
}

std::string_view without_profiling_prefix(std::string_view name) {
  return name.starts_with("pnccl") ? name.substr(1) : name;
}

bool is_nccl_call(std::string_view name) {
  name = without_profiling_prefix(name);
  constexpr std::string_view kPrefix = "nccl";
  return name.starts_with(kPrefix) && name.size() > kPrefix.size() && name[kPrefix.size()] >= 'A' &&
         name[kPrefix.size()] <= 'Z' && std::ranges::all_of(name, [](unsigned char letter) {
           return std::isalnum(letter) != 0 || letter == '_';
         });
}

std::vector<std::string> nccl_names_in(std::string_view bytes) {
  constexpr std::size_t kLongestName = 64;
  std::set<std::string> names;
  for (std::size_t at = bytes.find("nccl"); at != std::string_view::npos;
       at = bytes.find("nccl", at + 1)) {
    const std::size_t begin = at > 0 && bytes[at - 1] == 'p' ? at - 1 : at;
    const std::string_view name = bytes.substr(begin, kLongestName);
    const std::size_t length = name.find('\0');
    const bool begins = begin == 0 || bytes[begin - 1] == '\0';
    if (begins && length != std::string_view::npos && is_nccl_call(name.substr(0, length)))
      names.emplace(name.substr(0, length));
  }
  return {names.begin(), names.end()};
}

}  // namespace tutti::tools
