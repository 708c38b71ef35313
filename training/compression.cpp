#include "training/compression.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "training/numbers.hpp"
#include "training/outcome.hpp"
#include "training/power_sgd.hpp"

namespace tutti::training {
namespace {

using Method = GradientCompression::Method;

template <class Number>
std::optional<Number> number(std::string_view text) {
  Number value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, wrong] = std::from_chars(text.data(), end, value);
  if (wrong != std::errc{} || rest != end) return std::nullopt;
  return value;
}

Result<GradientCompression> parse_power_sgd(std::string_view text, std::string_view settings) {
  const auto rank = settings.empty() ? std::optional(1) : number<int>(settings);
  if (!rank || *rank < 1 || *rank > kMostPowerSgdRank)
    return failure(Code::kInvalidArgument,
                   "'{}': the rank of PowerSGD is a number from 1 to {}, as in powersgd:2", text,
                   kMostPowerSgdRank);
  return GradientCompression{.method = Method::kPowerSgd, .feedback = true, .rank = *rank};
}

/// A share that is kept, in words of formats.
Result<std::string> top_k_format(std::string_view text, std::string_view settings) {
  const std::string_view first = settings.substr(0, settings.find(':'));
  if (first.empty() || first.find('=') != std::string_view::npos) return std::string(text);
  const auto share = number<double>(first);
  if (!share || !(*share > 0) || !(*share <= 1))
    return failure(Code::kInvalidArgument,
                   "'{}': Top-K keeps a share above 0 and at most 1 of the values, as in topk:0.01",
                   text);
  return fmt::format("topk:k={:.6g}%{}", *share * 100, settings.substr(first.size()));
}

}  // namespace

Result<GradientCompression> parse_gradient_compression(std::string_view text) {
  if (text.empty() || text == "none") return GradientCompression{};
  const std::string_view name = text.substr(0, text.find(':'));
  const std::string_view settings = text.substr(std::min(name.size() + 1, text.size()));
  if (name == "powersgd") return parse_power_sgd(text, settings);
  if (name == "onebit") {
    if (!settings.empty())
      return failure(Code::kInvalidArgument, "'{}': onebit has no settings", text);
    return GradientCompression{.method = Method::kMomentum, .format = "sign", .feedback = true};
  }
  GradientCompression made{.method = Method::kFormat, .format = std::string(text)};
  if (name == "topk") {
    constexpr float kMomentum = 0.9F;
    TRAINING_ASSIGN(made.format, top_k_format(text, settings));
    made.method = Method::kMomentum;
    made.feedback = true;
    made.momentum = kMomentum;
  }
  for (const auto& [setting, feedback] :
       {std::pair<std::string_view, bool>{":errors=feedback", true}, {":errors=dropped", false}}) {
    const auto found = made.format.find(setting);
    if (found == std::string::npos) continue;
    made.format.erase(found, setting.size());
    made.feedback = feedback;
  }
  if (const auto known = Compression::create(made.format.c_str()); !known) return known.error();
  return made;
}

Result<WireSize> WireSize::create(const std::string& format, DataType type) {
  WireSize size;
  size.element_ = bytes_of(type);
  if (format.empty()) return size;
  TRAINING_ASSIGN(Compression made, Compression::create(format.c_str()));
  size.text_ = made.text();
  size.format_ = std::make_shared<const Compression>(std::move(made));
  if (size.bytes(size.block()) >= size.plain(size.block()))
    return failure(Code::kInvalidArgument,
                   "'{}' takes no fewer bytes than the numbers that it would compress: leave it "
                   "out, or choose one of less than {} bits",
                   format, 8 * size.element_);
  return size;
}

std::uint64_t WireSize::bytes(std::size_t elements) const {
  return is_plain() ? plain(elements) : format_->size_of(elements)->bytes;
}

std::uint64_t WireSize::shared(std::size_t elements) const {
  return is_plain() ? 0 : format_->size_of(elements)->shared;
}

std::size_t WireSize::block() const { return is_plain() ? 1 : format_->size_of(1)->block; }

}  // namespace tutti::training
