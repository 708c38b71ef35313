#include "src/exchange/mscclpp_json.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "src/exchange/mscclpp_plan.hpp"
#include "src/ir/verify.hpp"

namespace tutti::exchange {
namespace {

constexpr std::uint64_t kMostTurns = std::uint64_t{1} << 26;  // thread blocks times operations

/// Runs all thread blocks, each one operation at a time, in turns.
class MscclppExecution {
 public:
  MscclppExecution(const Plan& plan, Assembly assembly)
      : plan_(plan), assembly_(std::move(assembly)) {
    for (const PlanGpu& gpu : plan.gpus) next_.emplace_back(gpu.blocks.size(), Block{});
  }

  Result<ir::Schedule> run() && {
    bool moved = true;
    while (moved) {
      moved = false;
      for (Rank rank = 0; rank < plan_.request.ranks; ++rank)
        for (std::size_t b = 0; b < next_[index(rank)].size(); ++b) {
          const PlanOp* const op = op_of(rank, b);
          if (op == nullptr || !ready(rank, b, *op)) continue;
          if (const Status done = execute(rank, *op); !done)
            return at_place(op->path, done.error());
          next_[index(rank)][b] = {.op = next_[index(rank)][b].op + 1};
          moved = true;
        }
    }
    TUTTI_TRY(all_done());
    ir::Schedule schedule = std::move(assembly_).finish();
    TUTTI_TRY(ir::verify(schedule));
    return schedule;
  }

 private:
  struct Block {
    std::size_t op = 0;
    bool arrived = false;          ///< at the barrier that is its next operation
    std::uint64_t generation = 0;  ///< of that barrier, when it arrived
  };
  struct Barrier {
    int arrived = 0;
    std::uint64_t generation = 0;
  };
  using ChannelKey = std::tuple<Rank, Rank, int, int>;  // from, to, kind, number

  static std::size_t index(Rank rank) { return static_cast<std::size_t>(rank); }
  [[nodiscard]] const PlanOp* op_of(Rank rank, std::size_t block) const {
    const std::vector<PlanOp>& ops = plan_.gpus[index(rank)].blocks[block];
    const std::size_t at = next_[index(rank)][block].op;
    return at < ops.size() ? &ops[at] : nullptr;
  }

  Status all_done() const {
    for (Rank rank = 0; rank < plan_.request.ranks; ++rank)
      for (std::size_t b = 0; b < next_[index(rank)].size(); ++b)
        if (const PlanOp* const op = op_of(rank, b))
          return make_error(Code::kInvalidArgument, "{}: it waits for ever", op->path);
    return ok_status();
  }

  bool ready(Rank rank, std::size_t block, const PlanOp& op) {
    if (op.verb == PlanVerb::kBarrier) return passes(rank, block, op);
    if (op.verb == PlanVerb::kWait) return take_signals(rank, op);
    return !op.awaits_packets || std::ranges::all_of(op.sources, [&](const PlanOperand& source) {
      return source.run.space != ir::Space::kScratch || assembly_.holds(source.rank, source.run);
    });
  }

  /// All that the barrier is for have arrived.
  bool passes(Rank rank, std::size_t block, const PlanOp& op) {
    Barrier& barrier = barriers_[{rank, op.barrier}];
    Block& mine = next_[index(rank)][block];
    if (!mine.arrived) {
      mine.arrived = true;
      mine.generation = barrier.generation;
      if (++barrier.arrived >= op.barrier_blocks) {
        barrier.arrived = 0;
        ++barrier.generation;
      }
    }
    return barrier.generation > mine.generation;
  }

  bool take_signals(Rank rank, const PlanOp& op) {
    const auto pending = [&](const PlanChannel& channel) -> std::uint64_t& {
      return signals_[{channel.peer, rank, channel.kind, channel.number}];
    };
    if (!std::ranges::all_of(op.channels, [&](const auto& each) { return pending(each) > 0; }))
      return false;
    for (const PlanChannel& channel : op.channels) {
      std::uint64_t& count = pending(channel);
      if (count > 0) --count;  // a channel that is named twice is waited for once
    }
    return true;
  }

  Status execute(Rank rank, const PlanOp& op) {
    if (op.verb == PlanVerb::kCopy) TUTTI_TRY(copy(op));
    if (op.verb == PlanVerb::kReduce) TUTTI_TRY(reduce(op));
    if (op.signals || op.verb == PlanVerb::kSignal)
      for (const PlanChannel& channel : op.channels)
        ++signals_[{rank, channel.peer, channel.kind, channel.number}];
    return ok_status();
  }

  /// Each destination gets its own source, or the only one.
  Status copy(const PlanOp& op) {
    for (std::size_t i = 0; i < op.destinations.size(); ++i)
      TUTTI_TRY(move(op.sources.size() == 1 ? op.sources[0] : op.sources[i], op.destinations[i]));
    return ok_status();
  }

  Status move(const PlanOperand& from, const PlanOperand& to) {
    if (from.rank == to.rank) return assembly_.copy(to.rank, from.run, to.run);
    TUTTI_TRY(assembly_.check(to.rank, to.run));
    TUTTI_ASSIGN(const Message message, assembly_.send(from.rank, from.run, to.rank, 0));
    return assembly_.recv(to.rank, message, to.run);
  }

  /// The first destination gets the sum, the others copies of it.
  Status reduce(const PlanOp& op) {
    const PlanOperand& sum = op.destinations[0];
    const auto lies_there = [&](const PlanOperand& source) {
      return source.rank == sum.rank && source.run == sum.run;
    };
    const auto base = std::ranges::find_if(op.sources, lies_there);
    const std::size_t first =
        base == op.sources.end() ? 0 : static_cast<std::size_t>(base - op.sources.begin());
    if (base == op.sources.end()) TUTTI_TRY(move(op.sources[0], sum));
    for (std::size_t i = 0; i < op.sources.size(); ++i) {
      if (i == first) continue;
      const PlanOperand& source = op.sources[i];
      if (source.rank == sum.rank) {
        TUTTI_TRY(assembly_.reduce(sum.rank, source.run, sum.run));
        continue;
      }
      TUTTI_ASSIGN(const Message message, assembly_.send(source.rank, source.run, sum.rank, 0));
      TUTTI_TRY(assembly_.recv_reduce(sum.rank, message, sum.run, sum.run));
    }
    for (std::size_t i = 1; i < op.destinations.size(); ++i)
      TUTTI_TRY(move(sum, op.destinations[i]));
    return ok_status();
  }

  const Plan& plan_;
  Assembly assembly_;
  std::vector<std::vector<Block>> next_;
  std::map<ChannelKey, std::uint64_t> signals_;
  std::map<std::pair<Rank, int>, Barrier> barriers_;
};

Status check_turns(const Plan& plan) {
  std::uint64_t blocks = 0, ops = 0;
  for (const PlanGpu& gpu : plan.gpus)
    for (const auto& block : gpu.blocks) {
      ++blocks;
      ops += block.size();
    }
  if (blocks * ops <= kMostTurns) return ok_status();
  return make_error(Code::kInvalidArgument, "{} thread blocks with {} operations are too many",
                    blocks, ops);
}

}  // namespace

Result<Schedules> read_mscclpp_json(std::string_view text) {
  TUTTI_ASSIGN(const nlohmann::json json, parse_json(text));
  const JsonNode root(json);
  TUTTI_ASSIGN(const Plan plan, parse_mscclpp_plan(root));
  TUTTI_TRY(check_turns(plan));
  std::vector<BufferSizes> sizes;
  for (const PlanGpu& gpu : plan.gpus) sizes.push_back(gpu.sizes);
  TUTTI_ASSIGN(Assembly assembly,
               Assembly::create(plan.request, plan.name, plan.chunks_per_block, sizes));
  TUTTI_ASSIGN(ir::Schedule schedule, MscclppExecution(plan, std::move(assembly)).run());
  Schedules schedules;
  schedules.push_back(std::move(schedule));
  return schedules;
}

}  // namespace tutti::exchange
