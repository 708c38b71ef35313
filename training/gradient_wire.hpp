// How gradients of a group get from rank to rank, and what compression leaves to be sent later.
//
// A step's sends are undone by end_step(true): then every rank owes what it owed before.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "training/plan.hpp"
#include "training/power_sgd.hpp"
#include "training/slab.hpp"
#include "training/step_guard.hpp"
#include "tutti/communicator.hpp"
#include "tutti/compression.hpp"
#include "tutti/error.hpp"
#include "tutti/stream.hpp"

namespace tutti::training {

/// One rank's. One thread at a time. Resource, movable.
class GradientWire {
 public:
  /// What comes before gradients are compressed: changes those of a group.
  using Preparation = std::function<void(GroupId group, std::span<float> gradients)>;

  /// `rank` is this one's among all. `reductions` and `replicas`: see GradientStore. All must
  /// outlive this object.
  static Result<GradientWire> create(const Plan& plan, Rank rank, Comm& reductions, Comm& replicas,
                                     StepGuard& guard);
  void prepares(Preparation preparation) { preparation_ = std::move(preparation); }

  /// The next step is number `steps` + 1.
  void begin_step(std::int64_t steps);
  /// Whether gradients are compressed in this step.
  [[nodiscard]] bool compresses() const;
  /// Sends all gradients of a group. The sums over ranks arrive in `own`, this rank's part of
  /// `whole`, with the work on `stream` and finish().
  Status send(GroupId group, std::span<std::byte> whole, std::span<std::byte> own, Stream& stream);
  /// Plan::replicas_add_last(): adds up what replicas have of a shard.
  Status add_replicas(GroupId group, std::span<float> total, Stream& stream);
  /// Ends a pass, after the work on streams. Where one send needs another.
  Status finish();
  /// `undone`: nothing came of the step.
  Status end_step(bool undone);

  // ---- What is kept for later steps

  /// Values of one kind, by element from `begin` on of a group's buffer.
  struct Kept {
    std::string kind;
    GroupId group = 0;
    std::size_t begin = 0;
    std::vector<float> values;
  };
  /// What a checkpoint has of this rank: "owed_R_H" of gradients, or "owed_momentum_R_H" of
  /// momentum, as part R of the ranks left it; "velocity_R", its own momentum. Replicas of shards
  /// are one part together, other ranks one each. H is a hash of who encodes which elements: of the
  /// plan and of the hosts. Between steps.
  [[nodiscard]] std::vector<Kept> kept() const;
  /// Whether this rank goes on with what is kept under such a name.
  [[nodiscard]] bool takes(std::string_view kind) const;
  /// Where it would lie: all but kind and values.
  [[nodiscard]] Kept place_of(std::string kind, GroupId group) const;
  /// Goes on with it. Before the next step.
  Status keep(Kept kept);
  /// Whether such a name is of what this plan keeps, here or at another rank.
  [[nodiscard]] bool knows(std::string_view kind) const;
  /// Forgets all of it, before keep().
  Status forget();
  [[nodiscard]] std::span<PowerSgd> power_sgd() { return power_sgd_; }
  /// The sum of squares of what this rank owes.
  [[nodiscard]] double squares_owed() const;
  [[nodiscard]] std::size_t bytes() const;
  /// Seconds of compressing so far: of the library in its calls, and of this object.
  [[nodiscard]] double seconds() const;

 private:
  /// What was owed by a rank that is no more, or that encoded other elements.
  struct Debt {
    GroupId group = 0;
    std::string kind;
    std::vector<float> values;
    bool is_paid = false;  ///< in this step
  };
  /// Where a kind comes from.
  struct Origin {
    int of = 0;              ///< the part of the ranks that left it
    std::uint32_t hash = 0;  ///< of a debt
  };
  struct Lane {
    std::optional<Compression> compression;
    bool is_used = false;     ///< in this step
    std::vector<float> owed;  ///< at the end of the last step
    std::vector<float> velocity, old_velocity;
    std::span<const float> sums;  ///< where those over ranks arrive in this step
  };
  struct Thin {
    Slab first, next;
    std::span<std::byte> into;  ///< where the sums belong
  };
  GradientWire(const Plan& plan, Rank rank, Comm& reductions, Comm& replicas, StepGuard& guard)
      : plan_(plan), rank_(rank), reductions_(&reductions), replicas_(&replicas), guard_(&guard) {}

  Status make_lanes();
  Status make_thin();
  [[nodiscard]] bool is_alone() const { return reductions_->size() == 1 && replicas_->size() == 1; }
  /// Whether debts of gradients can be paid here. A rank alone compresses nothing, and still pays.
  [[nodiscard]] bool can_owe() const;
  [[nodiscard]] bool has_momentum() const { return plan_.options().gradients.has_own_momentum(); }
  [[nodiscard]] bool owes() const { return plan_.options().gradients.owes(); }
  [[nodiscard]] std::size_t begin_of(GroupId group) const;
  [[nodiscard]] std::size_t elements_of(GroupId group) const;
  [[nodiscard]] Result<std::uint32_t> hash_of_coding() const;
  [[nodiscard]] std::string kind_of_debt() const;
  /// The kind of what part `of` owes.
  [[nodiscard]] std::string name_of_debt(int of) const;
  /// Which part of the ranks this one is, and how many there are.
  [[nodiscard]] int part() const;
  [[nodiscard]] int parts() const;
  /// Of a kind that this plan keeps.
  [[nodiscard]] std::optional<Origin> origin_of(std::string_view kind) const;
  [[nodiscard]] std::span<const float> owed_in(GroupId group) const;
  void take_momentum(Lane& lane) const;
  Status end_step(Lane& lane, bool undone) const;
  void pay(GroupId group, std::span<float> gradients);
  Status prepare(GroupId group, std::span<std::byte> gradients);
  Status reduce_scatter(GroupId group, std::span<std::byte> whole, std::span<std::byte> own,
                        Stream& stream);
  Status all_reduce(GroupId group, DataType type, std::span<std::byte> data, Stream& stream);
  Status send_factored(GroupId group, std::span<std::byte> gradients, Stream& stream);
  Status turn();

  Plan plan_;
  Rank rank_;
  Comm* reductions_;
  Comm* replicas_;
  StepGuard* guard_;
  Preparation preparation_;
  std::int64_t steps_ = 0;
  std::vector<Lane> lanes_;  ///< by group, unless by PowerSGD
  std::vector<PowerSgd> power_sgd_;
  std::vector<Thin> thin_;               ///< by group
  std::optional<GroupId> being_turned_;  ///< its first sums are on their way
  Stream* thin_stream_ = nullptr;
  std::vector<GroupId> factored_;  ///< in this pass
  std::vector<Debt> debts_;
  std::uint32_t hash_ = 0;  ///< of who encodes which elements
  std::chrono::duration<double> own_time_ = {};
};

}  // namespace tutti::training
