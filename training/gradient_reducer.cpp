#include "training/gradient_reducer.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/ranges.h>

#include "training/outcome.hpp"

namespace tutti::training {

GradientReducer::GradientReducer(std::shared_ptr<const FlatLayout> layout, Comm& comm,
                                 Stream stream, std::vector<Slab> buckets)
    : layout_(std::move(layout)),
      comm_(&comm),
      shard_(layout_->shards() > 1 ? comm.rank() : 0),
      buckets_(std::move(buckets)),
      stream_(std::move(stream)) {}

Result<GradientReducer> GradientReducer::create(std::shared_ptr<const FlatLayout> layout,
                                                Comm& comm) {
  const int shards = layout->shards();
  if (shards != 1 && shards != comm.size())
    return failure(Code::kInvalidArgument,
                   "a layout of {} shards over {} ranks: it has 1, or as many as ranks", shards,
                   comm.size());
  TRAINING_ASSIGN(Stream stream, Stream::create());
  std::vector<Slab> buckets;
  for (GroupId group = 0; group < layout->groups().size(); ++group) {
    TRAINING_ASSIGN(Slab bucket, Slab::allocate(comm, layout->padded(group)));
    buckets.push_back(std::move(bucket));
  }
  return GradientReducer(std::move(layout), comm, std::move(stream), std::move(buckets));
}

std::span<float> GradientReducer::gradient(ParameterId parameter) const {
  return buckets_[layout_->group_of(parameter)].data().subspan(
      layout_->offset_of(parameter), layout_->table().elements(parameter));
}

void GradientReducer::clear() {
  for (const Slab& bucket : buckets_) std::ranges::fill(bucket.data(), 0.0F);
}

Status GradientReducer::begin() {
  if (is_open_)
    return failure(Code::kInvalidUsage,
                   "a backward pass begins before finish() ended the one before it");
  is_open_ = true;
  next_ = 0;
  is_ready_.assign(layout_->table().size(), false);
  unready_.clear();
  for (const Group& group : layout_->groups()) unready_.push_back(group.parameters.size());
  return ok_status();
}

Status GradientReducer::ready(ParameterId parameter) {
  const std::string& name = layout_->table()[parameter].name;
  if (!is_open_)
    return failure(Code::kInvalidUsage,
                   "the gradient of '{}' is ready outside of begin() and finish()", name);
  if (is_ready_[parameter])
    return failure(
        Code::kInvalidUsage,
        "the gradient of '{}' is ready for the second time in one backward pass: where a "
        "parameter is used more than once, say so when its gradients are all added up",
        name);
  is_ready_[parameter] = true;
  --unready_[layout_->group_of(parameter)];
  return launch_what_is_ready();
}

Status GradientReducer::launch_what_is_ready() {
  while (next_ < unready_.size() && unready_[next_] == 0) {
    TRAINING_TRY(launch(next_));
    ++next_;
  }
  return ok_status();
}

Status GradientReducer::launch(GroupId group) {
  const std::span<float> bucket = buckets_[group].data();
  if (layout_->shards() == 1)
    return comm_->all_reduce<float>(bucket, bucket, ReduceOp::kSum, &stream_);
  return comm_->reduce_scatter<float>(bucket, reduced(group), ReduceOp::kSum, &stream_);
}

std::vector<ParameterId> GradientReducer::missing() const {
  std::vector<ParameterId> missing;
  for (ParameterId parameter = 0; parameter < is_ready_.size(); ++parameter)
    if (!is_ready_[parameter]) missing.push_back(parameter);
  return missing;
}

Status GradientReducer::finish() {
  if (!is_open_) return failure(Code::kInvalidUsage, "finish() without begin()");
  TRAINING_TRY(launch_what_is_ready());  // again, what was refused
  if (const auto without = missing(); !without.empty()) {
    constexpr std::size_t kMostShown = 8;
    std::vector<std::string> names;
    for (const ParameterId parameter :
         std::span(without).first(std::min(without.size(), kMostShown)))
      names.push_back(layout_->table()[parameter].name);
    return failure(
        Code::kInvalidUsage,
        "{} parameters of {} got no gradient in this backward pass: {}{}. Use them in the "
        "loss, freeze them, or mark them ready with the zeros that they have",
        without.size(), layout_->table().size(), fmt::join(names, ", "),
        without.size() > kMostShown ? " ..." : "");
  }
  TRAINING_TRY(stream_.synchronize());
  is_open_ = false;
  return ok_status();
}

std::span<float> GradientReducer::reduced(GroupId group) const {
  const std::size_t elements = layout_->shard_elements(group);
  return buckets_[group].data().subspan(static_cast<std::size_t>(shard_) * elements, elements);
}

}  // namespace tutti::training
