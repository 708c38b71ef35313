#include "transports/collnet/collnet_steps.hpp"

#include <algorithm>
#include <cstring>
#include <functional>

namespace tutti::collnet {
namespace {

/// Of each member, whose pieces follow each other.
template <class Byte>
std::vector<std::size_t> block_sizes(std::span<const std::span<Byte>> pieces, std::size_t members) {
  std::vector<std::size_t> blocks(members, 0);
  const std::size_t each = pieces.size() / members;
  for (std::size_t i = 0; i < each * members; ++i) blocks[i / each] += pieces[i].size();
  return blocks;
}

}  // namespace

Steps::Steps(const TreePart& part, const StepLimits& limits)
    : limits_(limits),
      reduction_{part.type, part.op},
      sources_(part.sources, part.first_sent),
      destinations_(part.destinations, part.first_received),
      step_bytes_(limits.most_bytes / size_of(part.type) * size_of(part.type)),
      length_(part.bytes) {
  if (part.form == TreeForm::kSumInParts) sum_in_parts(part);
  if (part.form == TreeForm::kFromAll) from_all(part);
}

void Steps::sum_in_parts(const TreePart& part) {
  const auto blocks = block_sizes(part.sources, limits_.members);
  const bool regular = std::ranges::adjacent_find(blocks, std::not_equal_to()) == blocks.end() &&
                       blocks.front() * limits_.members == part.bytes &&
                       blocks.front() % size_of(part.type) == 0;
  if (!limits_.scatters || !regular) return;
  kind_ = Step::Kind::kReduceScatter;
  block_ = blocks.front();
}

void Steps::from_all(const TreePart& part) {
  const auto blocks = block_sizes(part.destinations, limits_.members);
  kind_ = Step::Kind::kAllGather;
  block_ = std::ranges::max(blocks);
  length_ = block_ * limits_.members;
  begins_.push_back(0);
  for (const std::size_t bytes : blocks) begins_.push_back(begins_.back() + bytes);
}

Step Steps::take() {
  const std::size_t bytes = std::min(step_bytes_, length_ - next_);
  const Step step{.kind = kind_,
                  .window = {.bytes_per_rank = block_, .offset = next_, .bytes = bytes}};
  next_ += bytes;
  return step;
}

Steps::Stretch Steps::own(const Step& step) const {
  const plugin::Window& window = step.window;
  const std::size_t begin = std::max(window.offset, limits_.place * block_);
  const std::size_t end = std::min(window.offset + window.bytes, (limits_.place + 1) * block_);
  return {begin, std::max(begin, end)};
}

std::size_t Steps::sent_bytes(const Step& step) const {
  if (step.kind != Step::Kind::kAllGather) return step.window.bytes;
  return own(step).end - own(step).begin;
}

std::size_t Steps::received_bytes(const Step& step) const {
  if (step.kind != Step::Kind::kReduceScatter) return step.window.bytes;
  return own(step).end - own(step).begin;
}

void Steps::fill(const Step& step, std::span<std::byte> send) const {
  Stretch from{step.window.offset, step.window.offset + step.window.bytes};
  std::size_t moved = 0;  // where in the operation a padded block begins, less where it is sent
  if (step.kind == Step::Kind::kAllGather) {
    from = own(step);
    moved = limits_.place * block_ - begins_[limits_.place];
    std::ranges::fill(send, std::byte{0});  // the padding
  }
  sources_.visit(
      from.begin - moved, from.end - moved, [&](std::span<const std::byte> memory, std::size_t at) {
        std::memcpy(send.data() + (at + moved - from.begin), memory.data(), memory.size());
      });
}

void Steps::put(std::size_t from, std::span<const std::byte> data) const {
  destinations_.visit(from, from + data.size(), [&](std::span<std::byte> memory, std::size_t at) {
    std::memcpy(memory.data(), data.data() + (at - from), memory.size());
  });
}

void Steps::deliver(const Step& step, std::span<const std::byte> received) const {
  const plugin::Window& window = step.window;
  if (step.kind == Step::Kind::kReduceScatter) return put(own(step).begin, received);
  if (step.kind == Step::Kind::kAllReduce) return put(window.offset, received);
  for (std::size_t member = 0; member < limits_.members; ++member) {
    const std::size_t block = begins_[member + 1] - begins_[member];
    const std::size_t first = member * block_;
    const std::size_t begin = std::max(window.offset, first);
    const std::size_t end = std::min(window.offset + window.bytes, first + block);
    if (begin >= end) continue;
    put(begins_[member] + (begin - first), received.subspan(begin - window.offset, end - begin));
  }
}

}  // namespace tutti::collnet
