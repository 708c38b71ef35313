#include "training/flat_layout.hpp"

#include <algorithm>
#include <utility>

#include "training/hash.hpp"
#include "training/outcome.hpp"

namespace tutti::training {
namespace {

std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

FlatLayout::FlatLayout(ParameterTable table, std::vector<Group> groups, int shards)
    : table_(std::move(table)), groups_(std::move(groups)), shards_(shards) {}

Result<FlatLayout> FlatLayout::create(ParameterTable table, std::vector<Group> groups, int shards,
                                      int replicas) {
  if (shards < 1 || replicas < 1)
    return failure(Code::kInvalidArgument, "{} shards in {} replicas: there is at least one",
                   shards, replicas);
  FlatLayout layout(std::move(table), std::move(groups), shards);
  TRAINING_TRY(layout.place_all(kAlignment * static_cast<std::size_t>(replicas)));
  return layout;
}

Status FlatLayout::place_all(std::size_t alignment) {
  homes_.resize(table_.size());
  std::vector<bool> placed(table_.size());
  Hash hash;
  hash.add(table_.hash()).add(static_cast<std::uint64_t>(shards_)).add(alignment);
  hash.add(groups_.size());
  for (GroupId id = 0; id < groups_.size(); ++id) {
    const Group& group = groups_[id];
    if (group.parameters.empty())
      return failure(Code::kInvalidArgument, "group {} ('{}') has no parameters", id, group.name);
    buffers_.emplace_back();
    hash.add(group.parameters.size());
    for (const ParameterId parameter : group.parameters) {
      TRAINING_TRY(place(id, parameter, placed));
      hash.add(parameter);
    }
    Buffer& buffer = buffers_.back();
    const auto shards = static_cast<std::size_t>(shards_);
    buffer.shard = round_up((buffer.elements + shards - 1) / shards, alignment);
  }
  const auto left = std::ranges::find(placed, false);
  if (left != placed.end()) {
    const auto parameter = static_cast<ParameterId>(left - placed.begin());
    return failure(Code::kInvalidArgument, "parameter '{}' is in no group", table_[parameter].name);
  }
  hash_ = hash.value();
  return ok_status();
}

/// Behind what its group has so far.
Status FlatLayout::place(GroupId group, ParameterId parameter, std::vector<bool>& placed) {
  if (parameter >= table_.size())
    return failure(Code::kInvalidArgument, "group '{}' names parameter {}, and there are {}",
                   groups_[group].name, parameter, table_.size());
  if (placed[parameter])
    return failure(Code::kInvalidArgument, "parameter '{}' is in group '{}' and in group '{}'",
                   table_[parameter].name, groups_[homes_[parameter].group].name,
                   groups_[group].name);
  placed[parameter] = true;
  homes_[parameter] = {group, buffers_[group].elements};
  buffers_[group].elements += table_.elements(parameter);
  return ok_status();
}

std::size_t FlatLayout::largest() const {
  std::size_t most = 0;
  for (GroupId group = 0; group < groups_.size(); ++group) most = std::max(most, padded(group));
  return most;
}

std::size_t FlatLayout::all_of_a_shard() const {
  std::size_t all = 0;
  for (const Buffer& buffer : buffers_) all += buffer.shard;
  return all;
}

std::size_t FlatLayout::all_padded() const {
  return all_of_a_shard() * static_cast<std::size_t>(shards_);
}

Place FlatLayout::place_of(ParameterId parameter, std::size_t element) const {
  const auto& [group, begin] = homes_[parameter];
  const std::size_t offset = begin + element;
  const std::size_t shard = shard_elements(group);
  return {group, offset, static_cast<int>(offset / shard), offset % shard};
}

std::vector<Piece> FlatLayout::pieces(GroupId group, int shard) const {
  const std::size_t begin = static_cast<std::size_t>(shard) * shard_elements(group);
  const std::size_t end = begin + shard_elements(group);
  std::vector<Piece> pieces;
  for (const ParameterId parameter : groups_[group].parameters) {
    const std::size_t first = std::max(begin, homes_[parameter].offset);
    const std::size_t last = std::min(end, homes_[parameter].offset + table_.elements(parameter));
    if (first >= last) continue;
    pieces.push_back({parameter, first - homes_[parameter].offset, last - first, first - begin});
  }
  return pieces;
}

}  // namespace tutti::training
