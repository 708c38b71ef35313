// Chooses the text for each step. It depends only on the seed and the number of the sample in the
// run: any number of ranks sees the same text, and one number is enough to resume.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tutti/error.hpp"

namespace tutti::trainer {

/// Which samples of a step a rank computes in one pass: [begin, begin + count) of the batch. Value.
struct SampleRange {
  std::size_t begin = 0, count = 0;
  friend bool operator==(const SampleRange&, const SampleRange&) = default;
};

/// The batch is cut in passes x ranks parts, as even as it goes; pass p of rank r has part
/// p x ranks + r. All fit where batch is at least passes x ranks, or some parts are empty.
SampleRange samples_of(std::size_t batch, int ranks, int passes, int rank, int pass);

/// Windows of a text: `context` bytes each, and the byte after each of them. Value; does not own
/// the text.
class Windows {
 public:
  /// kWrongData: the text is too short for one. `name` is for the error, which has no remedy.
  static Result<Windows> create(std::span<const std::uint8_t> text, std::size_t context,
                                std::string_view name);

  /// Where the window of sample `sample` begins, by a hash of both.
  [[nodiscard]] std::size_t start(std::uint64_t seed, std::uint64_t sample) const;
  /// The context + 1 bytes from there on.
  [[nodiscard]] std::span<const std::uint8_t> at(std::size_t begin) const {
    return text_.subspan(begin, context_ + 1);
  }
  [[nodiscard]] std::size_t context() const { return context_; }
  /// How many there are one after the other, without overlap, as validation reads them.
  [[nodiscard]] std::size_t in_a_row() const { return (text_.size() - 1) / context_; }
  /// Where they begin: of at most `most` of these, spread evenly over the text.
  [[nodiscard]] std::vector<std::size_t> spread(std::size_t most) const;

 private:
  Windows(std::span<const std::uint8_t> text, std::size_t context)
      : text_(text), context_(context) {}
  std::span<const std::uint8_t> text_;
  std::size_t context_ = 0;
};

/// A well-mixed number from two (src/base/hash.hpp).
std::uint64_t mixed(std::uint64_t seed, std::uint64_t number);

}  // namespace tutti::trainer
