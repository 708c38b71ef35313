// How parameters lie in flat buffers that ranks share: a bijection between names, offsets and
// owners.
//
// Words:
//   group   parameters that travel together: a bucket of gradients, or a unit that is gathered
//           before use. Each group has one flat buffer.
//   shard   one of equally long parts of a group's buffer. Shard s belongs to rank s among the
//           ranks that shard. With one shard nothing is sharded.
//
// A group's parameters follow each other without gaps, in the group's order. Padding at the end
// gives all shards the same length, a multiple of kAlignment. So a gather writes parameters where
// they are used, and a scattered sum arrives where its owner keeps it, without copies. (ZeRO,
// Rajbhandari et al., SC 2020, sections 5 and 7; flat parameters as in FSDP, Zhao et al., VLDB
// 2023, section 3.2.)
//
// Units are elements, of whatever type the buffers have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "training/parameters.hpp"
#include "tutti/error.hpp"

namespace tutti::training {

/// A cache line of float32.
inline constexpr std::size_t kAlignment = 16;

/// The parameters of a group, in the order in which they lie in its buffer. Value.
struct Group {
  std::string name;  ///< for messages
  std::vector<ParameterId> parameters;
  friend bool operator==(const Group&, const Group&) = default;
};
using GroupId = std::uint32_t;

/// Elements [begin, begin + count) of a flattened parameter. They begin at `offset` in the buffer
/// that the caller asked about. Value.
struct Piece {
  ParameterId parameter = 0;
  std::size_t begin = 0, count = 0;
  std::size_t offset = 0;
  friend bool operator==(const Piece&, const Piece&) = default;
};

/// Where an element lies. Value.
struct Place {
  GroupId group = 0;
  std::size_t offset = 0;           ///< in the group's buffer
  int shard = 0;                    ///< the shard that contains it
  std::size_t offset_in_shard = 0;  ///< in the group's shard
  friend bool operator==(const Place&, const Place&) = default;
};

/// Checked and immutable.
class FlatLayout {
 public:
  /// The length of a shard is a multiple of kAlignment x `replicas`, so that this many ranks can
  /// share the work on one shard. kInvalidArgument: fewer than one shard or replica, a group
  /// without parameters, or a parameter in no group or in two. It names the group and the
  /// parameter.
  static Result<FlatLayout> create(ParameterTable table, std::vector<Group> groups, int shards,
                                   int replicas = 1);

  [[nodiscard]] const ParameterTable& table() const { return table_; }
  [[nodiscard]] std::span<const Group> groups() const { return groups_; }
  [[nodiscard]] int shards() const { return shards_; }

  /// Length of a group's buffer without padding, with padding, and of each of its shards.
  [[nodiscard]] std::size_t elements(GroupId group) const { return buffers_[group].elements; }
  [[nodiscard]] std::size_t padded(GroupId group) const {
    return shard_elements(group) * static_cast<std::size_t>(shards_);
  }
  [[nodiscard]] std::size_t shard_elements(GroupId group) const { return buffers_[group].shard; }
  /// Length of the largest buffer, including padding.
  [[nodiscard]] std::size_t largest() const;
  /// Length of all buffers; of one rank's shards; of the padding.
  [[nodiscard]] std::size_t all_padded() const;
  [[nodiscard]] std::size_t all_of_a_shard() const;
  [[nodiscard]] std::size_t padding() const { return all_padded() - table_.elements(); }

  /// The group of a parameter, and where it begins in the group's buffer.
  [[nodiscard]] GroupId group_of(ParameterId parameter) const { return homes_[parameter].group; }
  [[nodiscard]] std::size_t offset_of(ParameterId parameter) const {
    return homes_[parameter].offset;
  }
  /// Place of element `element` of a parameter. It must be less than the number of elements.
  [[nodiscard]] Place place_of(ParameterId parameter, std::size_t element) const;
  /// What lies in one shard of a group, in order; offsets are in the shard. Empty if it is all
  /// padding.
  [[nodiscard]] std::vector<Piece> pieces(GroupId group, int shard) const;

  /// Equal layouts have equal hashes, on every machine.
  [[nodiscard]] std::uint64_t hash() const { return hash_; }

 private:
  struct Buffer {
    std::size_t elements = 0, shard = 0;
  };
  struct Home {
    GroupId group = 0;
    std::size_t offset = 0;
  };
  FlatLayout(ParameterTable table, std::vector<Group> groups, int shards);
  Status place_all(std::size_t alignment);
  Status place(GroupId group, ParameterId parameter, std::vector<bool>& placed);

  ParameterTable table_;
  std::vector<Group> groups_;
  int shards_;
  std::vector<Buffer> buffers_;
  std::vector<Home> homes_;
  std::uint64_t hash_ = 0;
};

}  // namespace tutti::training
