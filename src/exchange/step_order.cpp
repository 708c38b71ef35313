#include "src/exchange/step_order.hpp"

#include <algorithm>

namespace tutti::exchange {

StepIndex Causes::add(const std::array<StepIndex, 3>& follows) {
  follows_.push_back(follows);
  seen_.push_back(0);
  return static_cast<StepIndex>(follows_.size() - 1);
}

/// Causes have smaller numbers than what follows them, so no search goes past `before`.
bool Causes::ordered(StepIndex before, StepIndex after) {
  ++searches_;
  stack_.assign(1, after);
  while (!stack_.empty() && !gave_up()) {
    const StepIndex step = stack_.back();
    stack_.pop_back();
    --patience_.steps;
    for (const StepIndex cause : follows_[step]) {
      if (cause == before) return true;
      if (cause == kNoStep || cause < before || seen_[cause] == searches_) continue;
      seen_[cause] = searches_;
      stack_.push_back(cause);
    }
  }
  return false;
}

StepOrder::StepOrder(Causes& causes, std::size_t blocks, std::size_t cells)
    : causes_(causes),
      ran_(blocks),
      known_(blocks, std::vector<std::uint32_t>(blocks, 0)),
      cells_(cells) {}

StepIndex StepOrder::begin(BlockStep step, std::optional<BlockStep> awaited, StepIndex sender) {
  if (awaited) {
    std::vector<std::uint32_t>& mine = known_[step.block];
    const std::vector<std::uint32_t>& theirs = published_.at(*awaited);
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = std::max(mine[i], theirs[i]);
  }
  std::vector<StepIndex>& ran = ran_[step.block];
  ran.push_back(causes_.add(
      {ran.empty() ? kNoStep : ran.back(), awaited ? index(*awaited) : kNoStep, sender}));
  return ran.back();
}

void StepOrder::complete(BlockStep step, bool publishes) {
  known_[step.block][step.block] = step.step + 1;
  if (publishes) published_.emplace(step, known_[step.block]);
}

std::optional<BlockStep> StepOrder::read(std::size_t cell, BlockStep step) {
  Cell& touched = cells_[cell];
  if (touched.writer && !ordered(*touched.writer, step)) return touched.writer;
  std::erase_if(touched.readers, [&](const BlockStep& each) { return each.block == step.block; });
  touched.readers.push_back(step);
  return std::nullopt;
}

std::optional<BlockStep> StepOrder::write(std::size_t cell, BlockStep step) {
  Cell& touched = cells_[cell];
  if (touched.writer && !ordered(*touched.writer, step)) return touched.writer;
  for (const BlockStep& reader : touched.readers)
    if (!ordered(reader, step)) return reader;
  touched.writer = step;
  touched.readers.clear();
  return std::nullopt;
}

bool StepOrder::ordered(BlockStep before, BlockStep after) {
  std::uint32_t& known = known_[after.block][before.block];
  if (before.block == after.block || known > before.step) return true;
  if (!causes_.ordered(index(before), index(after))) return false;
  known = before.step + 1;
  return true;
}

}  // namespace tutti::exchange
