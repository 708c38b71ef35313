// Runs staged programs: a pipeline over slices, through slots, scratch and messages.
//
// Iteration t runs each op for slice t - stage, in program order (lower/program.hpp defines the
// words). An op runs as soon as two conditions hold: the progress counters of mapped peers have
// reached what it waits for, and the transfers of this rank that it needs are complete. It combines
// data in this rank's buffers and its peers' slots, converted between formats, or posts a message.
// After an op that peers wait for, this rank's counter advances.
//
// Slots lie in one of two regions, for even and for odd calls. A call's region is free once all
// peers have left the call before last.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "src/exec/converter.hpp"
#include "src/exec/entries.hpp"
#include "src/exec/launch.hpp"
#include "src/exec/message_scratch.hpp"
#include "src/exec/plan.hpp"
#include "src/exec/progress_counters.hpp"
#include "src/exec/team.hpp"

namespace tutti::exec {

/// Resource. One per team, reused from call to call.
class StagedRun {
 public:
  StagedRun(Team& team, Launch& launch, Entries& entries, ProgressCounters& progress)
      : team_(team),
        launch_(launch),
        entries_(entries),
        progress_(progress),
        scratch_memory_(team.heap()) {}

  void start();
  /// Whether this rank has its slots and scratch for this call.
  Result<bool> take_memory();
  /// After that: whether all ops have run for all slices.
  Result<bool> run();
  /// After that: whether all sent data has left this rank's buffers and is under way.
  Result<bool> drained();
  /// After an error: makes transfers stop touching the buffers.
  void cancel();

 private:
  Result<bool> run(std::uint32_t op_id, std::uint64_t slice);
  Result<bool> ready(std::uint32_t op_id, std::uint64_t slice);
  Result<bool> transfers_done(std::uint32_t op_id, std::uint64_t slice);
  /// Whom a transfer that is not done waits for.
  [[nodiscard]] Rank awaited(const lower::Op& op, const TransferRing& ring) const;

  Status combine(std::uint32_t op_id, std::uint64_t slice);
  Status convert(std::uint32_t op_id, std::uint64_t slice);
  [[nodiscard]] Error invalid_code(const lower::Op& op) const;
  Status post(std::uint32_t op_id, std::uint64_t slice);
  Status post_part(std::uint32_t op_id, std::uint64_t slice);
  Status finish_part(std::uint32_t op_id, std::uint64_t slice);
  [[nodiscard]] StreamId stream_of(const TransferRing& ring) const;
  Result<std::byte*> locate(const SlicedPlace& place, std::uint64_t slice);

  Team& team_;
  Launch& launch_;
  Entries& entries_;
  ProgressCounters& progress_;
  std::uint64_t iteration_ = 0;
  std::uint32_t turn_ = 0;        // which op of the iteration, or of the order of one slice
  std::uint32_t unfinished_ = 0;  // ops for a slice each, whose transfers are not known to be done
  std::byte* own_slots_ = nullptr;
  MessageScratch scratch_memory_;
  std::byte* scratch_ = nullptr;
  // Of the current combination. Members, because initialising them for each one would take long.
  std::array<const std::byte*, lower::kMaxSources> sources_{};
  std::array<Destination, lower::kMaxDestinations> destinations_{};
  std::array<CodedSource, lower::kMaxSources> coded_sources_{};
  std::array<CodedDestination, lower::kMaxDestinations> coded_destinations_{};
  Converter converter_;
  // Of the current part in an operation of a group.
  std::vector<std::span<const std::byte>> part_sources_;
  std::vector<std::span<std::byte>> part_destinations_;
};

}  // namespace tutti::exec
