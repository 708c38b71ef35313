// Runs programs of one round: kPublished and kDirect.
//
// Such a program has no slots, slices, waits or messages, so its plan is a list of passes over
// fixed places. A pass waits only until the peers whose memory it reads or writes have entered the
// call.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "src/exec/direct_buffers.hpp"
#include "src/exec/entries.hpp"
#include "src/exec/launch.hpp"
#include "src/exec/plan.hpp"

namespace tutti::exec {

/// Resource. One per team, reused from call to call.
class OneRoundRun {
 public:
  OneRoundRun(Launch& launch, Entries& entries, DirectBuffers& buffers)
      : launch_(launch), entries_(entries), buffers_(buffers) {}

  void start() { pass_ = place_ = 0; }
  /// Whether all passes are done.
  Result<bool> run();

 private:
  /// Returns an owner that claims to have published what it cannot; kNoRank: none.
  Rank locate_operands(const Pass& pass);
  Rank locate_sources(std::span<const Place> places);
  void combine(const Pass& pass) const;
  [[nodiscard]] std::byte* locate(const Place& place) const;

  Launch& launch_;
  Entries& entries_;
  DirectBuffers& buffers_;
  std::size_t pass_ = 0;
  std::size_t place_ = 0;  ///< index of the pass's place; the owners of earlier places have entered
  // Of the current pass. Members, because initialising them for each pass would take long.
  std::array<const std::byte*, lower::kMaxSources> sources_{};
  std::array<Destination, lower::kMaxDestinations> destinations_{};
};

}  // namespace tutti::exec
