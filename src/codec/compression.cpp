#include "src/codec/compression.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "src/base/printable.hpp"
#include "src/base/result.hpp"
#include "src/codec/make_format.hpp"

namespace tutti::codec {
namespace {

template <class Number>
std::optional<Number> number(std::string_view text) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// "value" of ":key=value" within a format's name, if it is there.
std::optional<std::string_view> value_of(std::string_view text, std::string_view key) {
  for (std::size_t at = text.find(':'); at != std::string_view::npos; at = text.find(':', at + 1)) {
    const std::string_view setting = text.substr(at + 1, text.find(':', at + 1) - at - 1);
    if (setting.starts_with(key) && setting.substr(key.size()).starts_with('='))
      return setting.substr(key.size() + 1);
  }
  return std::nullopt;
}

Error wrong(std::string_view text, std::string_view setting, std::string_view expected) {
  return make_error(Code::kInvalidArgument, "compression '{}': {}: {} was expected",
                    without_controls(text), without_controls(setting), expected);
}

/// Takes one setting; false if it is the format's.
Result<bool> take(std::string_view text, std::string_view setting, Compression& compression) {
  const std::size_t equals = std::min(setting.find('='), setting.size());
  const std::string_view key = setting.substr(0, equals);
  const std::string_view value = setting.substr(std::min(equals + 1, setting.size()));
  if (key == "rounding") {
    if (value != "nearest" && value != "random") return wrong(text, setting, "nearest or random");
    compression.random = value == "random";
    return true;
  }
  if (key == "errors") {
    if (value != "feedback" && value != "dropped")
      return wrong(text, setting, "feedback or dropped");
    compression.feedback = value == "feedback";
    return true;
  }
  if (key == "seed") {
    const auto seed = number<std::uint64_t>(value);
    if (!seed) return wrong(text, setting, "a number from 0 to 2^64 - 1");
    compression.seed = *seed;
    return true;
  }
  return false;
}

// The code, from its low bits: the format's number in known_formats() + 1, log2 of its block, its
// scale, the values that it keeps of a block - 1, rounding, errors, who asks for it.
constexpr int kFormatBits = 6, kBlockBits = 5, kScaleBits = 1, kKeptBits = 16;

std::uint32_t bits(std::uint32_t& code, int count) {
  const std::uint32_t field = code & ((1U << count) - 1);
  code >>= count;
  return field;
}

}  // namespace

std::string Compression::text() const {
  std::string text = format->traits().name;
  if (random) text += ":rounding=random";
  if (feedback) text += ":errors=feedback";
  if (seed != 0) text += fmt::format(":seed={}", seed);
  return text;
}

Result<Compression> parse_compression(std::string_view text) {
  Compression compression;
  std::string format(text.substr(0, text.find(':')));
  for (std::size_t at = text.find(':'); at != std::string_view::npos; at = text.find(':', at + 1)) {
    const std::string_view setting = text.substr(at + 1, text.find(':', at + 1) - at - 1);
    TUTTI_ASSIGN(const bool taken, take(text, setting, compression));
    if (!taken) format += fmt::format(":{}", setting);
  }
  TUTTI_ASSIGN(compression.format, make_format(format));
  return compression;
}

std::uint32_t code_of(const Compression& compression, bool by_setting) {
  const std::string_view text = compression.format->traits().name;
  const std::string_view name = text.substr(0, text.find(':'));
  const auto& known = known_formats();
  const auto format = std::ranges::find(known, name, &FormatSummary::name) - known.begin() + 1;
  const auto block = number<std::uint32_t>(value_of(text, "block").value_or("1")).value_or(1);
  const auto kept = number<std::uint32_t>(value_of(text, "k").value_or("1")).value_or(1);
  const std::uint32_t fp32 = value_of(text, "scale") == "fp32" ? 1 : 0;
  std::uint32_t code = by_setting ? 1 : 0;
  code = code << 1 | (compression.feedback ? 1 : 0);
  code = code << 1 | (compression.random ? 1 : 0);
  code = code << kKeptBits | ((kept - 1) & ((1U << kKeptBits) - 1));
  code = code << kScaleBits | fp32;
  code = code << kBlockBits | static_cast<std::uint32_t>(std::countr_zero(block));
  return code << kFormatBits | static_cast<std::uint32_t>(format);
}

std::string describe_code(std::uint32_t code) {
  if (code == 0) return "no compression";
  const std::uint32_t format = bits(code, kFormatBits), block = bits(code, kBlockBits);
  const bool fp32 = bits(code, kScaleBits) != 0;
  const std::uint32_t kept = bits(code, kKeptBits) + 1;
  const bool random = bits(code, 1) != 0, feedback = bits(code, 1) != 0, by_setting = code != 0;
  if (format == 0 || format > known_formats().size()) return "an unknown compression";
  const FormatSummary& known = known_formats()[format - 1];
  std::string text(known.name);
  const auto has = [&](std::string_view key) {
    return known.settings.find(key) != std::string_view::npos;
  };
  if (known.settings.starts_with("k=")) text += fmt::format(":k={}", kept);
  if (has("block=")) text += fmt::format(":block={}", std::uint64_t{1} << block);
  if (has("scale=")) text += fp32 ? ":scale=fp32" : ":scale=fp16";
  if (random) text += ":rounding=random";
  if (feedback) text += ":errors=feedback";
  if (by_setting) text += " by TUTTI_COMPRESS";
  return text;
}

}  // namespace tutti::codec
