#include "tools/program/sizes.hpp"

#include <charconv>
#include <limits>

#include "src/base/result.hpp"

namespace tutti::tools {
namespace {

/// The shift of a binary suffix, or -1.
int shift_of(std::string_view suffix) {
  if (suffix.size() == 2 && (suffix[1] == 'B' || suffix[1] == 'b')) suffix.remove_suffix(1);
  if (suffix.empty()) return 0;
  if (suffix.size() != 1) return -1;
  switch (suffix[0]) {
    case 'k':
    case 'K':
      return 10;
    case 'm':
    case 'M':
      return 20;
    case 'g':
    case 'G':
      return 30;
    default:
      return -1;
  }
}

}  // namespace

Result<std::size_t> parse_size(std::string_view text) {
  std::size_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, failure] = std::from_chars(text.data(), end, number);
  const int shift = shift_of({rest, static_cast<std::size_t>(end - rest)});
  if (failure == std::errc::invalid_argument || shift < 0) {
    return make_error(Code::kInvalidArgument,
                      "`{}` is not a size: write digits and, if you like, K, M or G", text);
  }
  if (failure != std::errc{} || number > (std::numeric_limits<std::size_t>::max() >> shift)) {
    return make_error(Code::kInvalidArgument, "the size `{}` does not fit 64 bits", text);
  }
  return number << shift;
}

Result<std::vector<std::size_t>> sizes_of(const SizeRange& range) {
  if (range.min > range.max) {
    return make_error(Code::kInvalidArgument,
                      "the smallest size {} is above the largest {}: raise -e or lower -b",
                      range.min, range.max);
  }
  const bool multiplies = range.factor > 1;
  if (!multiplies && range.step == 0 && range.min != range.max) {
    return make_error(Code::kInvalidArgument,
                      "sizes cannot advance from {} to {}: give -i above 0 or -f above 1",
                      range.min, range.max);
  }
  std::vector<std::size_t> sizes;
  for (std::size_t size = range.min;;) {
    if (sizes.size() == kMaxSizes) {
      return make_error(Code::kInvalidArgument,
                        "more than {} sizes from {} to {}: raise the step -i or use -f", kMaxSizes,
                        range.min, range.max);
    }
    sizes.push_back(size);
    const std::size_t next = !multiplies                       ? size + range.step
                             : size == 0                       ? 1
                             : size > range.max / range.factor ? range.max + 1
                                                               : size * range.factor;
    if (next > range.max || next <= size) return sizes;
    size = next;
  }
}

std::string size_text(std::size_t bytes) {
  constexpr std::string_view kSuffixes[] = {"", "K", "M", "G"};
  int suffix = 0;
  while (suffix < 3 && bytes != 0 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++suffix;
  }
  return fmt::format("{}{}", bytes, kSuffixes[suffix]);
}

}  // namespace tutti::tools
