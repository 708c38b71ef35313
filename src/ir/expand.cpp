#include "src/ir/expand.hpp"

#include <utility>
#include <vector>

#include "src/base/result.hpp"
#include "src/ir/builder.hpp"

namespace tutti::ir {
namespace {

/// `count` chunks of a set from the first-th on.
ChunkSet expanded_part(const ChunkSet& set, std::uint32_t first, std::uint32_t count) {
  return {set.space, set.at(first), count, set.stride, set.format};
}

/// Rewrites one rank's program.
class Expander {
 public:
  Expander(const Schedule& schedule, const Membership& membership,
           const GroupOperations& operations, Builder& builder, Rank rank)
      : schedule_(schedule),
        membership_(membership),
        operations_(operations),
        rank_(rank),
        me_(builder.rank(rank)),
        next_(operations.size(), 0) {}

  void run() {
    const Program& program = schedule_.programs[static_cast<std::size_t>(rank_)];
    me_.scratch_for(program.scratch);
    for (const Step& step : program.steps) rewrite(step);
  }

 private:
  void rewrite(const Step& step) {
    switch (step.verb) {
      case Verb::kSend:
        me_.send(step.src, step.peer, step.lane);
        return;
      case Verb::kRecv:
        me_.recv(step.dst, step.peer, step.lane);
        return;
      case Verb::kCopy:
        me_.copy(step.src, step.dst);
        return;
      case Verb::kReduce:
        me_.reduce(step.src, step.dst);
        return;
      case Verb::kGroupReduce:
      case Verb::kMulticast:
        return take_part(step);
    }
  }

  void take_part(const Step& step) {
    group_ = &schedule_.groups[step.group];
    operation_ = &operations_[step.group][next_[step.group]++];
    place_ = *membership_.place(step.group, rank_);
    lane_ = static_cast<Lane>(schedule_.lanes + step.group);
    send(step);
    if (step.dst.count == 0) return;
    if (step.verb == Verb::kGroupReduce)
      add(step);
    else
      collect(step);
  }

  const Step& step_of(std::size_t place) const {
    return schedule_.programs[static_cast<std::size_t>(group_->ranks[place])]
        .steps[operation_->parts[place].step];
  }
  /// What of this rank's source another member wants.
  ChunkSet wanted(const ChunkSet& src, std::size_t place) const {
    const ChunkSet& dst = step_of(place).dst;
    if (dst.count == 0 || src.count == 0) return {};
    if (!adds(operation_->form)) return src;
    return expanded_part(src, operation_->parts[place].first, dst.count);
  }

  /// Begins with the next member, so no rank is the first target of all.
  void send(const Step& step) {
    const std::size_t members = group_->ranks.size();
    for (std::size_t i = 1; i < members; ++i) {
      const std::size_t place = (place_ + i) % members;
      const ChunkSet part = wanted(step.src, place);
      if (part.count != 0) me_.send(part, group_->ranks[place], lane_);
    }
  }

  /// The sum is made in scratch, since the destination may be the source.
  void add(const Step& step) {
    const ChunkSet own = wanted(step.src, place_);
    ChunkSet sum;
    for (std::size_t place = 0; place < group_->ranks.size(); ++place) {
      ChunkSet addend = own;
      if (place != place_) {
        addend = me_.scratch(step.dst, step.dst.format);
        me_.recv(addend, group_->ranks[place], lane_);
      } else if (place == 0) {
        addend = me_.scratch(step.dst, step.dst.format);
        me_.copy(own, addend);
      }
      if (place == 0)
        sum = addend;
      else
        me_.reduce(addend, sum);
    }
    me_.copy(sum, step.dst);
  }

  void collect(const Step& step) {
    for (std::size_t place = 0; place < group_->ranks.size(); ++place) {
      const ChunkSet& src = step_of(place).src;
      if (src.count == 0) continue;
      const ChunkSet part = expanded_part(step.dst, operation_->parts[place].first_sent, src.count);
      if (place == place_)
        me_.copy(src, part);
      else
        me_.recv(part, group_->ranks[place], lane_);
    }
  }

  const Schedule& schedule_;
  const Membership& membership_;
  const GroupOperations& operations_;
  const Rank rank_;
  Builder::RankBuilder me_;
  std::vector<std::size_t> next_;  // per group: the operation that this rank comes to next
  // Of the operation at hand:
  const Group* group_ = nullptr;
  const GroupOperation* operation_ = nullptr;
  std::size_t place_ = 0;
  Lane lane_ = 0;
};

}  // namespace

Result<Schedule> expand_groups(const Schedule& schedule) {
  const Membership membership(schedule);
  TUTTI_ASSIGN(const GroupOperations operations, group_operations(schedule, membership));
  Builder builder(schedule.request, schedule.algorithm, schedule.chunks_per_block);
  for (const std::string& name : schedule.formats) builder.format(name);
  for (Rank rank = 0; rank < schedule.request.ranks; ++rank)
    Expander(schedule, membership, operations, builder, rank).run();
  return std::move(builder).finish();
}

}  // namespace tutti::ir
