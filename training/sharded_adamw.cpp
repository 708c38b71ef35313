#include "training/sharded_adamw.hpp"

#include <utility>

namespace tutti::training {

ShardedAdamW::ShardedAdamW(std::shared_ptr<const FlatLayout> layout, int shard,
                           const AdamW& options)
    : layout_(std::move(layout)), options_(options) {
  for (GroupId group = 0; group < layout_->groups().size(); ++group) {
    const std::size_t elements = layout_->shard_elements(group);
    moments_.push_back({std::vector<float>(elements), std::vector<float>(elements)});
    pieces_.push_back(layout_->pieces(group, shard));
  }
}

void ShardedAdamW::step(GroupId group, std::span<const float> gradients,
                        std::span<float> parameters, float gradient_scale) {
  const auto part = [](auto all, const Piece& piece) {
    return std::span(all).subspan(piece.offset, piece.count);
  };
  for (const Piece& piece : pieces_[group])
    adamw_step(options_, step_, gradient_scale, layout_->table()[piece.parameter].decays,
               part(gradients, piece), part(parameters, piece),
               {part(first(group), piece), part(second(group), piece)});
}

}  // namespace tutti::training
