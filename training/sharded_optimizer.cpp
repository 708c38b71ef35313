#include "training/sharded_optimizer.hpp"

#include <utility>

namespace tutti::training {

int moments_of(const Optimizer& optimizer) {
  const auto* const sgd = std::get_if<Sgd>(&optimizer);
  if (sgd == nullptr) return 2;
  return sgd->momentum == 0 ? 0 : 1;
}

ShardedOptimizer::ShardedOptimizer(std::shared_ptr<const FlatLayout> layout, int shard,
                                   const Optimizer& optimizer)
    : layout_(std::move(layout)), optimizer_(optimizer) {
  for (GroupId group = 0; group < layout_->groups().size(); ++group) {
    moments_.emplace_back();
    for (int which = 0; which < moments(); ++which)
      moments_.back()[static_cast<std::size_t>(which)].resize(layout_->shard_elements(group));
    pieces_.push_back(layout_->pieces(group, shard));
  }
}

void ShardedOptimizer::set_learning_rate(double rate) {
  std::visit([rate](auto& options) { options.learning_rate = rate; }, optimizer_);
}

void ShardedOptimizer::step(GroupId group, std::span<const float> gradients,
                            std::span<float> parameters, float gradient_scale) {
  for (const Piece& piece : pieces_[group]) {
    const auto part = [&](auto all) { return all.subspan(piece.offset, piece.count); };
    const bool decays = layout_->table()[piece.parameter].decays;
    if (const auto* const adamw = std::get_if<AdamW>(&optimizer_)) {
      adamw_step(*adamw, step_, gradient_scale, decays, part(gradients), part(parameters),
                 {part(moment(0, group)), part(moment(1, group))});
    } else {
      sgd_step(std::get<Sgd>(optimizer_), gradient_scale, decays, part(gradients), part(parameters),
               moments() > 0 ? part(moment(0, group)) : std::span<float>());
    }
  }
}

void ShardedOptimizer::prepare_frozen(FrozenAdam how, GroupId group, std::span<float> gradients) {
  how.adamw = std::get<AdamW>(optimizer_);
  for (const Piece& piece : pieces_[group]) {
    const auto part = [&](auto all) { return all.subspan(piece.offset, piece.count); };
    training::frozen_prepare(how, {part(moment(0, group)), part(moment(1, group))},
                             part(gradients));
  }
}

void ShardedOptimizer::frozen_momentum(FrozenAdam how, GroupId group, std::span<float> sums) {
  how.adamw = std::get<AdamW>(optimizer_);
  for (const Piece& piece : pieces_[group])
    training::frozen_momentum(how, moment(1, group).subspan(piece.offset, piece.count),
                              sums.subspan(piece.offset, piece.count));
}

void ShardedOptimizer::frozen_step(FrozenAdam how, GroupId group, float shrinks,
                                   std::span<const float> momentum, std::span<float> parameters) {
  how.adamw = std::get<AdamW>(optimizer_);
  for (const Piece& piece : pieces_[group]) {
    const auto part = [&](auto all) { return all.subspan(piece.offset, piece.count); };
    training::frozen_step(how, step_, shrinks, layout_->table()[piece.parameter].decays,
                          part(momentum), part(parameters),
                          {part(moment(0, group)), part(moment(1, group))});
  }
}

}  // namespace tutti::training
