// Where a rank has its parameters, as elements of the type in which the model computes: whole, or
// its shards of them, which are gathered into windows for as long as they are used.
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
#include "tutti/error.hpp"
#include "tutti/stream.hpp"

namespace tutti::training {

/// One rank's. One thread at a time. Resource.
class ParameterStore {
 public:
  /// `gathers` are the ranks that share shards; `secondary` the neighbours that share secondary
  /// ones, null unless the plan has those. All outlive it.
  static Result<ParameterStore> create(const Plan& plan, Comm& gathers, Comm* secondary,
                                       StepGuard& guard);

  /// See Engine.
  Result<std::span<std::byte>> use(GroupId unit, Pass pass);
  Status release(GroupId unit, Pass pass);
  [[nodiscard]] std::span<std::byte> parameter(ParameterId id) const;

  /// This rank's shard of a group: who changes it calls publish() next.
  [[nodiscard]] std::span<std::byte> own(GroupId group) const;
  /// All of a group where parameters are whole.
  [[nodiscard]] std::span<std::byte> whole(GroupId group) const;
  /// The ranks' shards of a group have changed: those who have it whole get them. Runs beside the
  /// caller until settle().
  Status publish(GroupId group);
  /// All that was published or gathered ahead has come; copies made before are void. All units are
  /// released.
  Status settle();

  /// A unit that would have to be given up.
  [[nodiscard]] bool is_in_use() const;

  /// Bytes of all shards, or of all that is whole; and of windows.
  [[nodiscard]] std::size_t bytes() const { return parameters_.data().size(); }
  [[nodiscard]] std::size_t window_bytes() const;

 private:
  /// Has one unit at a time; or always the same one, which is kept.
  struct Window {
    Slab memory;
    Stream stream;
    std::optional<GroupId> unit;  ///< that it has; none: free
    bool is_used = false;         ///< between use() and release(); else gathered ahead, or kept
    bool is_pending = false;      ///< a gather runs on its stream
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
  void keep_secondary(const Window& window, GroupId unit);
  [[nodiscard]] std::span<std::byte> secondary_part(GroupId unit) const;

  Plan plan_;
  Comm* gathers_;
  Comm* secondary_;
  StepGuard* guard_;
  // Memory before the streams that use it, which end first.
  Slab parameters_;                  ///< of all groups, one after the other
  Slab secondary_shards_;            ///< of all units that have such
  std::vector<std::size_t> begins_;  ///< of each group in the first, in elements
  std::vector<std::size_t> secondary_begins_;
  std::vector<bool> has_secondary_;          ///< by unit: since the last step
  Stream stream_;                            ///< of what is published
  std::vector<Window> windows_;              ///< shared
  std::vector<std::optional<Window>> kept_;  ///< by unit: those with memory of their own
};

}  // namespace tutti::training
