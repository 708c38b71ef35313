// The schedule: plain data that says who sends which chunk to whom, and what is added to what.
//
// There is one Program per rank, of steps with independent verbs. Fused forms, addresses and
// protocols do not appear here: src/lower decides those. The k-th send on (source, destination,
// lane) pairs with the k-th receive there. `deps` are indices of earlier steps in the same program
// that must complete before this step may touch memory. A step without dependencies may run at any
// time.
//
// Values in memory are sums of contributions. A chunk of a reducing collective starts as one rank's
// contribution. kReduce joins two disjoint sets of contributions to the same chunk.
//
// A value in memory has a format: plain elements, or one of the schedule's formats, which keep it
// in fewer bytes and lose precision. Each operand names the format of what it reads or writes. A
// copy converts between the formats of its operands. A reduction may take a formatted source, and
// adds to a plain sum. Only scratch holds formatted values.
//
// A group is a set of ranks for which something in the network adds and copies: a switch, or a tree
// of switches. It holds one tree of the network while the schedule runs. All members take part in
// each operation of a group: the k-th group step of each member on it belongs to the k-th
// operation. An operation is complete on a member when its results are there, which is after all
// members have contributed. The network adds in any order.
//   kGroupReduce  Each member contributes a source of the same chunks. Destinations tell who gets
//                 the sums: every member all of them; or one member all of them; or, of m members,
//                 the i-th gets the i-th of m equal parts.
//   kMulticast    One member or all members have a source. Each member gets what is sent, in the
//                 order of members, where it has a destination.
// A group step may write a chunk that it reads if it replaces this very chunk by its sum or copy.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/ir/request.hpp"
#include "tutti/types.hpp"

namespace tutti::ir {

enum class Verb : std::uint8_t {
  kSend,         ///< src -> peer
  kRecv,         ///< peer -> dst
  kCopy,         ///< dst = src, converted if their formats differ
  kReduce,       ///< dst = dst + src (the request's operator)
  kGroupReduce,  ///< dst = a part of the sum of all members' src, or nothing
  kMulticast,    ///< dst = src of the members that have one, or nothing
};
inline constexpr int kVerbs = 6;

enum class Space : std::uint8_t { kInput, kOutput, kScratch };
inline constexpr int kSpaces = 3;

/// kPlain, or 1 more than an index into Schedule::formats.
using FormatId = std::uint8_t;
inline constexpr FormatId kPlain = 0;
inline constexpr std::size_t kMostFormats = 3;
inline constexpr std::size_t kLongestFormatName = 16;

/// The chunks first, first+stride, ... (`count` of them) of one space. An unused operand is
/// ChunkSet{}: count 0.
struct ChunkSet {
  Space space = Space::kInput;
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  std::uint32_t stride = 1;
  FormatId format = kPlain;  ///< of what is read or written

  [[nodiscard]] std::uint32_t at(std::uint32_t i) const { return first + i * stride; }
  friend bool operator==(const ChunkSet&, const ChunkSet&) = default;
};

using StepId = std::uint32_t;

/// An index into Schedule::groups.
using GroupId = std::uint16_t;
inline constexpr GroupId kNoGroup = 0xffff;
/// More than any network has trees for one job.
inline constexpr std::size_t kMostGroups = 64;

/// Unused fields must hold their default, so every mutation of a step has an effect.
struct Step {
  Verb verb = Verb::kCopy;
  ChunkSet src = {};  ///< all verbs but kRecv; kMulticast: of those who send
  /// All verbs but kSend; in group steps, of those who get something. As many chunks as src in
  /// local steps.
  ChunkSet dst = {};
  Rank peer = kNoRank;            ///< kSend, kRecv
  Lane lane = 0;                  ///< kSend, kRecv
  std::vector<StepId> deps = {};  ///< ascending, each smaller than this step's own index
  GroupId group = kNoGroup;       ///< kGroupReduce, kMulticast

  friend bool operator==(const Step&, const Step&) = default;
};

/// Scratch chunk i is as long as chunk `scratch[i]`, the data that it will hold.
struct Program {
  std::vector<Step> steps;
  std::vector<std::uint32_t> scratch;

  friend bool operator==(const Program&, const Program&) = default;
};

/// At least two different ranks, in the order of their parts of a result.
struct Group {
  std::vector<Rank> ranks;

  friend bool operator==(const Group&, const Group&) = default;
};

/// The rest of the numbers that a lane may have is for others than schedules.
inline constexpr std::uint32_t kMostLanes = 0x3fff;

/// Every block has `chunks_per_block` chunks; chunk c of a space lies in block c /
/// chunks_per_block. Chunks with the same index within their blocks have the same length.
struct Schedule {
  Request request;
  std::string algorithm;  ///< its name, for messages and pictures
  std::uint32_t chunks_per_block = 1;
  std::uint32_t lanes = 1;
  /// Names of one to 16 small letters, digits and underscores, each once. Whoever runs the schedule
  /// knows what they stand for.
  std::vector<std::string> formats;
  std::vector<Group> groups;
  std::vector<Program> programs;  ///< one per rank

  friend bool operator==(const Schedule&, const Schedule&) = default;
};

constexpr bool is_format_name(std::string_view name) {
  for (const char c : name)
    if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '_') return false;
  return !name.empty() && name.size() <= kLongestFormatName;
}

constexpr std::string_view name_of(Verb verb) {
  constexpr std::string_view kNames[] = {"send",   "recv",         "copy",
                                         "reduce", "group_reduce", "multicast"};
  return kNames[static_cast<std::size_t>(verb)];
}
constexpr std::string_view name_of(Space space) {
  constexpr std::string_view kNames[] = {"in", "out", "tmp"};
  return kNames[static_cast<std::size_t>(space)];
}
/// Group steps need not have the operands that they may use.
constexpr bool uses_src(Verb verb) { return verb != Verb::kRecv; }
constexpr bool uses_dst(Verb verb) { return verb != Verb::kSend; }
constexpr bool uses_peer(Verb verb) { return verb == Verb::kSend || verb == Verb::kRecv; }
constexpr bool uses_group(Verb verb) {
  return verb == Verb::kGroupReduce || verb == Verb::kMulticast;
}
/// Touches the rank's own memory alone.
constexpr bool is_local(Verb verb) { return verb == Verb::kCopy || verb == Verb::kReduce; }

}  // namespace tutti::ir
