// Runs staged programs: a pipeline over slices, through slots, scratch and messages.
//
// Iteration t runs each op for slice t - stage (lower/program.hpp has the words), in program order,
// as soon as what the op waits for is there: mapped peers that have come so far, which their
// progress counters say, and transfers of this rank that are complete. An op combines what lies in
// this rank's buffers and its peers' slots, encodes or decodes it, or posts a message; after one
// that peers wait for, this rank's counter moves on.
//
// Slots lie in one of two regions, for even and odd calls. The one of a call is free once all peers
// have left the call before last.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "src/exec/entries.hpp"
#include "src/exec/launch.hpp"
#include "src/exec/plan.hpp"
#include "src/exec/progress_counters.hpp"
#include "src/exec/team.hpp"

namespace tutti::exec {

/// Resource; one per team, reused from call to call.
class StagedRun {
 public:
  StagedRun(Team& team, Launch& launch, Entries& entries, ProgressCounters& progress)
      : team_(team), launch_(launch), entries_(entries), progress_(progress) {}

  void start();
  /// Whether this rank has its slots and scratch for this call.
  Result<bool> take_memory();
  /// Then: whether all ops have run for all slices.
  Result<bool> run();
  /// Then: whether all that was sent is out of this rank's buffers and on its way.
  Result<bool> drained();
  /// After an error: transfers no longer touch the buffers.
  void cancel();

 private:
  Result<bool> ready(std::uint32_t op_id, std::uint64_t slice);
  Result<bool> transfers_done(std::uint32_t op_id, std::uint64_t slice);

  Status execute(std::uint32_t op_id, std::uint64_t slice);
  Status combine(const lower::Op& op, std::uint64_t slice);
  Status convert(const lower::Op& op, std::uint64_t slice);
  Status post(std::uint32_t op_id, std::uint64_t slice);
  [[nodiscard]] StreamId stream_of(const lower::Op& op) const;

  Result<std::byte*> locate(const lower::Operand& operand, std::uint32_t piece,
                            std::uint64_t slice);
  Result<std::byte*> slot_memory(const lower::Operand& operand, std::uint32_t piece,
                                 std::uint64_t slice);

  Team& team_;
  Launch& launch_;
  Entries& entries_;
  ProgressCounters& progress_;
  std::uint64_t iteration_ = 0;
  std::uint32_t op_ = 0;
  std::byte* own_slots_ = nullptr;
  std::byte* scratch_ = nullptr;
  // Of the combination under way; here because they are long to initialise for each.
  std::array<const std::byte*, lower::kMaxSources> sources_{};
  std::array<Destination, lower::kMaxDestinations> destinations_{};
};

}  // namespace tutti::exec
