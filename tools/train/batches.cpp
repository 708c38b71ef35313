#include "tools/train/batches.hpp"

#include <algorithm>

#include "src/base/hash.hpp"
#include "src/base/result.hpp"

namespace tutti::trainer {

std::uint64_t mixed(std::uint64_t seed, std::uint64_t number) {
  return mix(mix(seed + kGolden) + (number + 1) * kGolden);
}

SampleRange samples_of(std::size_t batch, int ranks, int passes, int rank, int pass) {
  const auto parts = static_cast<std::size_t>(ranks) * static_cast<std::size_t>(passes);
  const auto part = static_cast<std::size_t>(pass) * static_cast<std::size_t>(ranks) +
                    static_cast<std::size_t>(rank);
  const std::size_t begin = batch * part / parts;
  return {begin, batch * (part + 1) / parts - begin};
}

Result<Windows> Windows::create(std::span<const std::uint8_t> text, std::size_t context,
                                std::string_view name) {
  if (text.size() > context) return Windows(text, context);
  return make_error(Code::kWrongData,
                    "{} has {} bytes, and a sample takes {}, one more than the model's context",
                    name, text.size(), context + 1);
}

std::size_t Windows::start(std::uint64_t seed, std::uint64_t sample) const {
  return static_cast<std::size_t>(mixed(seed, sample) % (text_.size() - context_));
}

std::vector<std::size_t> Windows::spread(std::size_t most) const {
  const std::size_t all = in_a_row(), count = std::min(most, all);
  std::vector<std::size_t> begins;
  for (std::size_t i = 0; i < count; ++i) begins.push_back(all * i / count * context_);
  return begins;
}

}  // namespace tutti::trainer
