// How ranks make gradients, and parameters that they gather, smaller on their way.
//
//   a format     values in fewer bits, or the largest ones alone: tutti/compression.h. For sharded
//                gradients this is qgZ, for gathered parameters qwZ (ZeRO++, Wang et al., ICLR
//                2024)
//   momentum     of AdamW, of which the variance is frozen after some steps: its signs, where all
//                ranks share one (1-bit Adam, Tang et al., ICML 2021); or the largest values, where
//                each rank has its own (momentum correction: Deep Gradient Compression, Lin et al.,
//                ICLR 2018, section 3.2)
//   PowerSGD     the gradient of a matrix as the product of two thin ones (Vogels et al., NeurIPS
//                2019)
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "tutti/compression.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti::training {

/// Of gradients. Value.
struct GradientCompression {
  enum class Method : std::uint8_t { kNone, kFormat, kMomentum, kPowerSgd };
  Method method = Method::kNone;
  /// kFormat, kMomentum: as tuttiCompressionCreate() takes it, without `errors`.
  std::string format = {};
  /// What a rank rounds off is added in the next step (Seide et al., Interspeech 2014). Always so
  /// for kPowerSgd.
  bool feedback = false;
  /// kMomentum: each rank has a momentum of its own with this factor, and what has been sent of it
  /// is 0 from then on; for formats that send few values. 0: all ranks share AdamW's.
  float momentum = 0;
  int rank = 0;  ///< kPowerSgd: columns of the thin matrices
  /// So many steps are sent as they are. kMomentum: the variance is frozen after them.
  std::int64_t warmup_steps = 0;
  friend bool operator==(const GradientCompression&, const GradientCompression&) = default;

  [[nodiscard]] bool is_on() const { return method != Method::kNone; }
  [[nodiscard]] bool owes() const { return is_on() && (feedback || method == Method::kPowerSgd); }
  [[nodiscard]] bool has_own_momentum() const {
    return method == Method::kMomentum && momentum != 0;
  }
};

/// "int8", "fp8:block=64" and other formats; "topk:0.01", a share that is kept, by a momentum of
/// each rank; "onebit", "powersgd:2". kInvalidArgument names the word that is wrong.
Result<GradientCompression> parse_gradient_compression(std::string_view text);

/// How many bytes values take on their way: as elements of a type, or in a format. Value.
class WireSize {
 public:
  /// `format`: as tuttiCompressionCreate() takes it; "": as they are. kInvalidArgument: the format
  /// takes no fewer bytes than `type`.
  static Result<WireSize> create(const std::string& format, DataType type);

  [[nodiscard]] bool is_plain() const { return format_ == nullptr; }
  /// Of values that travel together.
  [[nodiscard]] std::uint64_t bytes(std::size_t elements) const;
  /// Part of these that is shared by values, such as scales.
  [[nodiscard]] std::uint64_t shared(std::size_t elements) const;
  /// As they are.
  [[nodiscard]] std::uint64_t plain(std::size_t elements) const { return elements * element_; }
  /// Values that are encoded together.
  [[nodiscard]] std::size_t block() const;
  /// The format with all settings; "" without one.
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::size_t element_ = 0;
  std::shared_ptr<const Compression> format_;
  std::string text_;
};

}  // namespace tutti::training
