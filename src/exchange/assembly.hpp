// Builds a Schedule from the steps of a foreign format, in one order that the format allows.
//
// Foreign schedules name chunks of an input, an output and a scratch buffer. They take all chunks
// to be equally long, and may write to their input. Ours split a block into chunks of nearly equal
// length and do not write the input. So an Assembly remembers for each foreign chunk, called a
// cell, where its value lies in our memory. A written input moves to scratch. A scratch chunk that
// is reused for a value of another length moves, too. Buffers that overlap in place share cells.
// The reader interprets the foreign dependencies; ours follow from what the steps read and write
// (ir::Builder).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/ir/builder.hpp"
#include "src/ir/schedule.hpp"
#include "tutti/error.hpp"

namespace tutti::exchange {

/// Consecutive chunks of one foreign buffer.
struct Run {
  ir::Space space = ir::Space::kInput;
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  friend bool operator==(const Run&, const Run&) = default;
};

/// "i[3]" or "s[2..5]", with the buffer names of MSCCL and MSCCL++.
std::string print(const Run& run);

/// Numbers of chunks that a foreign format declares for one rank. They may exceed the collective's
/// buffers; the excess is scratch under another name.
struct BufferSizes {
  std::uint64_t input = 0;
  std::uint64_t output = 0;
  std::uint64_t scratch = 0;
};

/// A message under way, as its receiver needs to know it. `like[i]` is the index of chunk i within
/// its block, which determines its length.
struct Message {
  Rank source = kNoRank;
  Lane lane = 0;
  std::vector<std::uint32_t> like;
};

/// Its errors describe the file but name no place in it; the reader adds the place.
class Assembly {
 public:
  /// `sizes` has one entry per rank. kInvalidArgument when a file may not ask for this much memory.
  static Result<Assembly> create(const ir::Request& request, std::string_view name,
                                 std::uint32_t chunks_per_block,
                                 const std::vector<BufferSizes>& sizes);

  Result<Message> send(Rank rank, const Run& src, Rank peer, Lane lane);
  Status recv(Rank rank, const Message& message, const Run& dst);
  /// dst = message + src
  Status recv_reduce(Rank rank, const Message& message, const Run& src, const Run& dst);
  /// Sends message + src on, and stores nothing.
  Result<Message> recv_reduce_send(Rank rank, const Message& message, const Run& src, Rank peer,
                                   Lane lane);
  /// dst = src
  Status copy(Rank rank, const Run& src, const Run& dst);
  /// dst = dst + src
  Status reduce(Rank rank, const Run& src, const Run& dst);

  /// Number of cells of a rank; overlapping buffers share them.
  [[nodiscard]] std::size_t cells(Rank rank) const { return ranks_[index(rank)].cells.size(); }
  /// The cell of a chunk in a run that check() accepts.
  [[nodiscard]] std::size_t cell(Rank rank, ir::Space space, std::uint32_t chunk) const;
  /// Whether the rank has these chunks.
  [[nodiscard]] Status check(Rank rank, const Run& run) const;
  /// Whether the rank has these chunks and each has a value.
  [[nodiscard]] bool holds(Rank rank, const Run& run) const { return read(rank, run).ok(); }

  /// Copies results that lie elsewhere into the output. The schedule is not verified yet.
  ir::Schedule finish() &&;

 private:
  struct Place {
    ir::Space space = ir::Space::kScratch;
    std::uint32_t chunk = 0;
    friend bool operator==(const Place&, const Place&) = default;
  };
  using Places = std::vector<Place>;
  struct Cell {
    std::optional<Place> value;  ///< where the value lies; empty: none was written yet
    Place home;                  ///< where a value goes if its length fits
  };
  struct RankState {
    BufferSizes sizes;
    std::vector<Cell> cells;            ///< outputs, then inputs, then scratch
    std::vector<std::int64_t> lengths;  ///< of scratch: the index in a block; -1: unused so far
  };

  Assembly(const ir::Request& request, std::string_view name, std::uint32_t chunks_per_block);
  static std::size_t index(Rank rank) { return static_cast<std::size_t>(rank); }
  void add_rank(Rank rank, const BufferSizes& sizes);
  [[nodiscard]] std::uint32_t length(Rank rank, const Place& place) const;
  [[nodiscard]] std::vector<std::uint32_t> lengths(Rank rank, const Places& places) const;
  [[nodiscard]] Result<Places> read(Rank rank, const Run& run) const;
  Result<Places> write(Rank rank, const Run& run, const std::vector<std::uint32_t>& like);
  Result<Places> fresh(Rank rank, const std::vector<std::uint32_t>& like);
  [[nodiscard]] bool fits(Rank rank, const Run& run, const std::vector<std::uint32_t>& like) const;
  Status same_lengths(Rank rank, const Run& src, const Places& from, const Run& dst,
                      const std::vector<std::uint32_t>& like) const;
  Result<ir::ChunkSet> gathered(Rank rank, const Places& places);
  static bool consecutive(const Places& places);
  static ir::ChunkSet set_of(const Places& places);
  template <class Visit>
  static void for_each_run(const Places& from, const Places& to, Visit&& visit);
  void copy_places(Rank rank, const Places& from, const Places& to);
  void reduce_places(Rank rank, const Places& from, const Places& to);

  ir::Request request_;
  std::uint32_t chunks_per_block_;
  ir::Builder build_;
  std::vector<RankState> ranks_;
  std::uint64_t fresh_chunks_ = 0;
};

}  // namespace tutti::exchange
