// How parameters lie in flat buffers that ranks share: a bijection between names, offsets and
// owners.
//
// Words:
//   group   parameters that travel together: a bucket of gradients, or a unit that is gathered
//           before it is used. Each has one flat buffer.
//   shard   one of equally long parts of a group's buffer; shard s belongs to rank s of the ranks
//           that shard. With one shard nothing is sharded.
//
// A group's parameters follow each other without gaps, in its own order. The buffer ends in padding
// so that all shards have the same length, a multiple of kAlignment. So a gather writes parameters
// where they are used, and a scattered sum arrives where its owner keeps it: nothing is copied.
// (ZeRO, Rajbhandari et al., SC 2020, sections 5 and 7; flat parameters as in FSDP, Zhao et al.,
// VLDB 2023, section 3.2.)
//
// Units: elements, of whatever type the buffers have.
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

/// Which parameters a group has, in the order in which they lie in its buffer. Value.
struct Group {
  std::string name;  ///< for messages
  std::vector<ParameterId> parameters;
  friend bool operator==(const Group&, const Group&) = default;
};
using GroupId = std::uint32_t;

/// Elements [begin, begin + count) of a flattened parameter, which lie from `offset` on in the
/// buffer that was asked about. Value.
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
  int shard = 0;                    ///< that has it
  std::size_t offset_in_shard = 0;  ///< in the group's shard
  friend bool operator==(const Place&, const Place&) = default;
};

/// Checked and immutable.
class FlatLayout {
 public:
  /// Shards are as long as a multiple of kAlignment x `replicas`, so that as many ranks may share
  /// what is to be done to one. kInvalidArgument: fewer than one shard or replica, a group without
  /// parameters, or a parameter that is in no group or in two; names the group and the parameter.
  static Result<FlatLayout> create(ParameterTable table, std::vector<Group> groups, int shards,
                                   int replicas = 1);

  [[nodiscard]] const ParameterTable& table() const { return table_; }
  [[nodiscard]] std::span<const Group> groups() const { return groups_; }
  [[nodiscard]] int shards() const { return shards_; }

  /// Of a group's buffer: without padding, with it, and of each of its shards.
  [[nodiscard]] std::size_t elements(GroupId group) const { return buffers_[group].elements; }
  [[nodiscard]] std::size_t padded(GroupId group) const {
    return shard_elements(group) * static_cast<std::size_t>(shards_);
  }
  [[nodiscard]] std::size_t shard_elements(GroupId group) const { return buffers_[group].shard; }
  /// Of the largest buffer, padding included.
  [[nodiscard]] std::size_t largest() const;
  /// Of all buffers; of the shards of one rank; of padding alone.
  [[nodiscard]] std::size_t all_padded() const;
  [[nodiscard]] std::size_t all_of_a_shard() const;
  [[nodiscard]] std::size_t padding() const { return all_padded() - table_.elements(); }

  /// Where a parameter begins in its group's buffer.
  [[nodiscard]] GroupId group_of(ParameterId parameter) const { return homes_[parameter].group; }
  [[nodiscard]] std::size_t offset_of(ParameterId parameter) const {
    return homes_[parameter].offset;
  }
  /// Of element `element` of a parameter, below its number of elements.
  [[nodiscard]] Place place_of(ParameterId parameter, std::size_t element) const;
  /// What lies in one shard of a group, in order: offsets are in the shard. Empty where there is
  /// padding alone.
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
