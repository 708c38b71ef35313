// Where a rank keeps its parameters, in the type in which the model computes. They are whole, or
// only its shards. Shards are gathered into windows while they are used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "training/pass.hpp"
#include "training/plan.hpp"
#include "training/slab.hpp"
#include "training/step_guard.hpp"
#include "tutti/communicator.hpp"
#include "tutti/compression.hpp"
#include "tutti/error.hpp"
#include "tutti/stream.hpp"

namespace tutti::training {

/// One rank's store. One thread at a time. Resource.
class ParameterStore {
 public:
  /// `gathers` are the ranks that share shards. `secondary` are the neighbours that share secondary
  /// shards; null if the plan has none. All must outlive the store.
  static Result<ParameterStore> create(const Plan& plan, Comm& gathers, Comm* secondary,
                                       StepGuard& guard);

  /// See Engine.
  Result<std::span<std::byte>> use(GroupId unit, Pass pass);
  Status release(GroupId unit, Pass pass);
  [[nodiscard]] std::span<std::byte> parameter(ParameterId id) const;

  /// This rank's shard of a group. After changing it, call publish().
  [[nodiscard]] std::span<std::byte> own(GroupId group) const;
  /// The whole group, if parameters are whole.
  [[nodiscard]] std::span<std::byte> whole(GroupId group) const;
  /// The ranks' shards of a group have changed: sends them to ranks that keep the group whole. Runs
  /// while the caller goes on, until settle().
  Status publish(GroupId group);
  /// Waits for everything published, and for gathers made ahead. Copies made before become invalid.
  /// All units must be released.
  Status settle();

  /// Seconds that calls have encoded and decoded so far.
  [[nodiscard]] double coding_seconds() const;
  /// The next step is number `steps` + 1. All gathers of a group round alike until the next one.
  void begin_step(std::int64_t steps) { steps_ = steps; }

  /// Whether a unit is in use whose memory would have to be released.
  [[nodiscard]] bool is_in_use() const;

  /// Bytes of all shards, or of all whole parameters; and of windows.
  [[nodiscard]] std::size_t bytes() const { return parameters_.data().size(); }
  [[nodiscard]] std::size_t window_bytes() const;

 private:
  /// Holds one unit at a time, or always the same unit, which it keeps.
  struct Window {
    Slab memory;
    Stream stream;
    std::optional<GroupId> unit;  ///< the unit that it holds; empty: free
    bool is_used = false;         ///< between use() and release(); else gathered ahead, or kept
    bool is_pending = false;      ///< a gather is running on its stream
  };
  ParameterStore(const Plan& plan, Comm& gathers, Comm* secondary, StepGuard& guard, Stream stream);

  Status make_windows();
  Status make_secondary();
  [[nodiscard]] std::span<std::byte> part(std::span<std::byte> of, std::size_t begin,
                                          std::size_t count) const;
  Window* holder(GroupId unit);
  Window* room_for(GroupId unit);
  Window* free_window(GroupId unit);
  Status gather(Window& window, GroupId unit);
  Status gather_ahead(GroupId unit, Pass pass);
  Status await(Window& window);
  /// For a gather of a group; null: as it is.
  [[nodiscard]] const Compression* compression(GroupId group);
  void keep_secondary(const Window& window, GroupId unit);
  [[nodiscard]] std::span<std::byte> secondary_part(GroupId unit) const;

  Plan plan_;
  Comm* gathers_;
  Comm* secondary_;
  StepGuard* guard_;
  // Memory comes before the streams that use it, so the streams end first.
  Slab parameters_;                  ///< all groups, one after another
  Slab secondary_shards_;            ///< all units that have secondary shards
  std::vector<std::size_t> begins_;  ///< offset of each group in parameters_, in elements
  std::vector<std::size_t> secondary_begins_;
  std::vector<bool> has_secondary_;        ///< by unit: filled since the last step
  std::vector<Compression> compressions_;  ///< by group, if gathers are compressed
  std::int64_t steps_ = 0;
  Stream stream_;                            ///< for publish()
  std::vector<Window> windows_;              ///< shared by units
  std::vector<std::optional<Window>> kept_;  ///< by unit: windows of units with memory of their own
};

}  // namespace tutti::training
