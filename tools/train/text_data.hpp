// The text that a model is trained on, as bytes. The last part is kept for validation.
//
// What `tutti train prepare` writes, all numbers little-endian:
//
//   0   8  "TUTTITXT"
//   8   8  version, 1
//   16  8  bytes to train on
//   24  8  bytes to validate with, which follow them
//   32  4  CRC-32C of all these bytes
//   36  4  CRC-32C of bytes 0..35
//   40     the bytes
//
// A plain text file works, too: it is split when it is opened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "tutti/error.hpp"

namespace tutti::trainer {

/// Value.
class TextData {
 public:
  /// The share that is kept for validation where nobody says another.
  static constexpr double kValidationShare = 0.1;

  /// A file, plain or prepared. kUnavailable: it cannot be read; kWrongData: it is empty or
  /// damaged. Both name the file and what to do.
  static Result<TextData> open(const std::string& path);
  /// `bytes` of a plain text; the last `share` of them, 0..0.9, for validation. kWrongData: none.
  static Result<TextData> split(std::string bytes, double share);
  /// What a prepared file holds. Hostile-safe; kWrongData says what is wrong.
  static Result<TextData> parse(std::string file);
  static bool is_prepared(std::string_view file);

  /// The file that parse() reads.
  [[nodiscard]] std::string file() const;
  [[nodiscard]] std::span<const std::uint8_t> training() const { return all().first(training_); }
  [[nodiscard]] std::span<const std::uint8_t> validation() const {
    return all().subspan(training_);
  }
  /// Of all bytes and where they are split: equal for a plain file and what was prepared from it.
  [[nodiscard]] std::uint32_t hash() const { return hash_; }

 private:
  TextData(std::string bytes, std::size_t begin, std::size_t training);
  [[nodiscard]] std::span<const std::uint8_t> all() const {
    return std::span(reinterpret_cast<const std::uint8_t*>(bytes_.data()), bytes_.size())
        .subspan(begin_);
  }
  std::string bytes_;
  std::size_t begin_ = 0, training_ = 0;
  std::uint32_t hash_ = 0;
};

}  // namespace tutti::trainer
