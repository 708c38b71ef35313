#include "src/codec/make_format.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "src/base/nearest.hpp"
#include "src/base/printable.hpp"
#include "src/base/result.hpp"
#include "src/codec/formats.hpp"

namespace tutti::codec {
namespace {

constexpr std::uint32_t kLeastBlock = 32, kMostScaledBlock = 8192, kMostTopKBlock = 65536;

struct Setting {
  std::string_view key, value;
};

std::optional<double> number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}
std::optional<std::uint32_t> integer(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// "int8:block=128" as a name and the settings behind it, which the formats take one by one.
class Spec {
 public:
  static Result<Spec> parse(std::string_view text) {
    Spec spec;
    spec.text_ = text;
    const std::size_t name_end = std::min(text.find(':'), text.size());
    spec.name_ = text.substr(0, name_end);
    for (std::size_t at = name_end; at < text.size();) {
      const std::size_t end = std::min(text.find(':', at + 1), text.size());
      const std::string_view setting = text.substr(at + 1, end - at - 1);
      const std::size_t equals = setting.find('=');
      if (equals == std::string_view::npos || equals == 0)
        return spec.wrong("'{}' is no setting: key=value was expected, as in block=128",
                          without_controls(setting));
      spec.settings_.push_back({setting.substr(0, equals), setting.substr(equals + 1)});
      at = end;
    }
    return spec;
  }

  [[nodiscard]] std::string_view name() const { return name_; }

  std::optional<std::string_view> take(std::string_view key) {
    const auto found = std::ranges::find(settings_, key, &Setting::key);
    if (found == settings_.end()) return std::nullopt;
    const std::string_view value = found->value;
    settings_.erase(found);
    return value;
  }

  Result<std::uint32_t> take_block(std::uint32_t otherwise, std::uint32_t most) {
    const auto text = take("block");
    if (!text) return otherwise;
    const auto block = integer(*text);
    if (!block || !std::has_single_bit(*block) || *block < kLeastBlock || *block > most)
      return wrong("block={}: a power of two from {} to {} was expected", without_controls(*text),
                   kLeastBlock, most);
    return *block;
  }

  Result<ScaleKind> take_scale(ScaleKind otherwise) {
    const auto text = take("scale");
    if (!text) return otherwise;
    if (*text == "fp16") return ScaleKind::kFloat16;
    if (*text == "fp32") return ScaleKind::kFloat32;
    return wrong("scale={}: fp16 or fp32 was expected", without_controls(*text));
  }

  /// The number of values that are kept of a block: "41", or "1%", which rounds up.
  Result<std::uint32_t> take_kept(std::uint32_t block) {
    const std::string_view text = take("k").value_or("1%");
    const bool percent = text.ends_with('%');
    const auto value = number(text.substr(0, text.size() - (percent ? 1 : 0)));
    const double kept = !value ? 0 : percent ? *value / 100 * block : *value;
    const bool is_share = percent && kept > 0 && kept <= block;
    const bool is_count = !percent && kept >= 1 && kept <= block && kept == std::floor(kept);
    if (!is_share && !is_count)
      return wrong(
          "k={}: 1 to {} values of a block, or more than 0 % and at most 100 %, as in k=1%, "
          "was expected",
          without_controls(text), block);
    return static_cast<std::uint32_t>(std::ceil(kept));
  }

  /// Nothing may be left.
  Status end() const {
    if (settings_.empty()) return ok_status();
    return wrong("'{}' has no setting '{}' here, or has it twice", name_,
                 without_controls(settings_.front().key));
  }

  template <class... Args>
  Error wrong(fmt::format_string<Args...> format, Args&&... args) const {
    return make_error(Code::kInvalidArgument, "format '{}': {}", without_controls(text_),
                      fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  std::string_view text_, name_;
  std::vector<Setting> settings_;
};

using Made = std::unique_ptr<const Format>;

Result<Made> make_integer(Spec& spec, int bits, bool offset, Loops loops) {
  TUTTI_ASSIGN(const std::uint32_t block, spec.take_block(bits == 8 ? 128 : 32, kMostScaledBlock));
  TUTTI_ASSIGN(const ScaleKind scale, spec.take_scale(ScaleKind::kFloat16));
  return integer_format(bits, offset, block, scale, loops);
}
Result<Made> make_float8(Spec& spec, Eight eight, Loops loops) {
  TUTTI_ASSIGN(const std::uint32_t block, spec.take_block(128, kMostScaledBlock));
  TUTTI_ASSIGN(const ScaleKind scale, spec.take_scale(ScaleKind::kFloat16));
  return float8_format(eight, block, scale, loops);
}
Result<Made> make_top_k(Spec& spec, Loops loops) {
  TUTTI_ASSIGN(const std::uint32_t block, spec.take_block(4096, kMostTopKBlock));
  TUTTI_ASSIGN(const std::uint32_t kept, spec.take_kept(block));
  return top_k_format(kept, block, loops);
}

Result<Made> make(Spec& spec, Loops loops) {
  const std::string_view name = spec.name();
  if (name == "bf16") return half_format(Half::kBfloat16, loops);
  if (name == "fp16") return half_format(Half::kFloat16, loops);
  if (name == "int8") return make_integer(spec, 8, false, loops);
  if (name == "int8a") return make_integer(spec, 8, true, loops);
  if (name == "int4") return make_integer(spec, 4, false, loops);
  if (name == "int4a") return make_integer(spec, 4, true, loops);
  if (name == "bfp16") return block_floating_point_format(16, loops);
  if (name == "bfp8") return block_floating_point_format(8, loops);
  if (name == "e4m3" || name == "fp8") return make_float8(spec, Eight::kE4m3, loops);
  if (name == "e5m2") return make_float8(spec, Eight::kE5m2, loops);
  if (name == "mxfp8") return microscaling_format(Micro::kE4m3, loops);
  if (name == "mxfp8e5m2") return microscaling_format(Micro::kE5m2, loops);
  if (name == "mxfp4") return microscaling_format(Micro::kE2m1, loops);
  if (name == "mxint8") return microscaling_format(Micro::kInt8, loops);
  if (name == "nvfp4") return nvfp4_format(loops);
  if (name == "sign") return sign_format(loops);
  if (name == "topk") return make_top_k(spec, loops);

  std::vector<std::string> names;
  std::string list;
  for (const FormatSummary& known : known_formats()) {
    names.emplace_back(known.name);
    list += (list.empty() ? "" : ", ") + names.back();
  }
  const std::string meant = nearest(name, names);
  return spec.wrong("no format has this name{}; there are {}",
                    meant.empty() ? "" : fmt::format("; did you mean {}?", meant), list);
}

}  // namespace

Result<std::shared_ptr<const Format>> make_format(std::string_view text, Loops loops) {
  TUTTI_ASSIGN(Spec spec, Spec::parse(text));
  TUTTI_ASSIGN(Made format, make(spec, loops));
  TUTTI_TRY(spec.end());
  return std::shared_ptr<const Format>(std::move(format));
}

const std::vector<FormatSummary>& known_formats() {
  constexpr std::string_view kScaled = "block=32..8192, scale=fp16|fp32";
  static const std::vector<FormatSummary> formats{
      {"bf16", "", "the upper half of a float32"},
      {"fp16", "", "IEEE binary16"},
      {"int8", kScaled, "integers of 8 bits times a scale"},
      {"int8a", kScaled, "the same from the block's least value on"},
      {"int4", kScaled, "integers of 4 bits times a scale"},
      {"int4a", kScaled, "the same from the block's least value on"},
      {"bfp16", "", "integers of 16 bits times a power of two for each 512; networks can add them"},
      {"bfp8", "", "integers of 8 bits times a power of two for each 512; networks can add them"},
      {"e4m3", kScaled, "floats of 8 bits with 3 of mantissa, times a scale; also called fp8"},
      {"e5m2", kScaled, "floats of 8 bits with 2 of mantissa, times a scale"},
      {"mxfp8", "", "e4m3 in blocks of 32 with a power of two (OCP Microscaling)"},
      {"mxfp8e5m2", "", "e5m2 in blocks of 32 with a power of two (OCP Microscaling)"},
      {"mxfp4", "", "floats of 4 bits in blocks of 32 with a power of two (OCP Microscaling)"},
      {"mxint8", "", "integers of 8 bits in blocks of 32 with a power of two (OCP Microscaling)"},
      {"nvfp4", "", "floats of 4 bits, a scale for each 16, one more for each 4,096"},
      {"sign", "", "one bit, and the mean magnitude of each 4,096"},
      {"topk", "k=1%|COUNT, block=32..65536",
       "the largest values of each block, with their places"},
  };
  return formats;
}

}  // namespace tutti::codec
