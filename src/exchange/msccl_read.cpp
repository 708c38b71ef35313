// From thread blocks to programs: the blocks of all gpus run here on chunk numbers, each as far as
// it can, and what they do is recorded in the order in which they did it. That order is one that
// the format allows, so each rank can follow its part of it with the same FIFOs. FIFOs of one
// message, which is what our proofs ask for, come first. Where a file needs deeper ones, the k-th
// message of a connection takes lane k modulo the depth, each lane being a FIFO of one.
#include <algorithm>
#include <deque>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "src/base/result.hpp"
#include "src/exchange/msccl_algo.hpp"
#include "src/exchange/msccl_xml.hpp"
#include "src/exchange/step_order.hpp"
#include "src/ir/verify.hpp"

namespace tutti::exchange {
namespace {

constexpr std::uint64_t kMostKnowledge = std::uint64_t{1} << 24;  // numbers in published clocks
constexpr std::uint64_t kMostClocks = std::uint64_t{1} << 28;     // and in those of thread blocks

/// A thread block of a file.
struct BlockId {
  Rank rank = 0;
  int block = 0;
  friend auto operator<=>(const BlockId&, const BlockId&) = default;
};

using ConnectionKey = std::tuple<Rank, Rank, int>;  // source, destination, channel

struct Ends {
  std::optional<BlockId> sender;
  std::optional<BlockId> receiver;
};

/// What does not depend on where buffers lie: who owns the ends of connections, and waits that can
/// be met.
class File {
 public:
  static Result<File> create(MscclAlgo algo, std::string_view text) {
    File file(std::move(algo), text);
    TUTTI_TRY(file.connect());
    TUTTI_TRY(file.resolve_waits());
    return file;
  }

  [[nodiscard]] const MscclAlgo& algo() const { return algo_; }
  [[nodiscard]] const MscclBlock& block(BlockId id) const {
    return algo_.gpus[static_cast<std::size_t>(id.rank)].blocks[static_cast<std::size_t>(id.block)];
  }
  [[nodiscard]] const Ends& ends(const ConnectionKey& key) const { return ends_.at(key); }
  [[nodiscard]] std::string place(BlockId id, std::size_t step) const {
    const MscclBlock& in = block(id);
    return fmt::format("{}: gpu {} tb {} step {}", place_in(text_, in.steps[step].offset), id.rank,
                       id.block, step);
  }

 private:
  File(MscclAlgo algo, std::string_view text) : algo_(std::move(algo)), text_(text) {}

  Status own(std::optional<BlockId>& end, BlockId id, std::string_view what) const {
    if (end)
      return make_error(Code::kInvalidArgument,
                        "{}: gpu {} tb {}: tb {} {} there on channel {} too",
                        place_in(text_, block(id).offset), id.rank, id.block, end->block, what,
                        block(id).channel);
    end = id;
    return ok_status();
  }

  Status connect() {
    for (Rank rank = 0; rank < static_cast<Rank>(algo_.gpus.size()); ++rank)
      for (int b = 0; b < static_cast<int>(blocks_of(rank).size()); ++b) {
        const BlockId id{rank, b};
        const MscclBlock& each = block(id);
        if (each.send != kNoRank)
          TUTTI_TRY(own(ends_[{rank, each.send, each.channel}].sender, id, "sends"));
        if (each.recv != kNoRank)
          TUTTI_TRY(own(ends_[{each.recv, rank, each.channel}].receiver, id, "receives"));
      }
    return ok_status();
  }

  [[nodiscard]] const std::vector<MscclBlock>& blocks_of(Rank rank) const {
    return algo_.gpus[static_cast<std::size_t>(rank)].blocks;
  }

  /// A block tells how far it has come in steps with hasdep alone, so who waits for another step
  /// waits for the next of those.
  Status resolve_waits() {
    std::uint64_t knowledge = 0, clocks = 0;
    for (Rank rank = 0; rank < static_cast<Rank>(algo_.gpus.size()); ++rank) {
      std::vector<MscclBlock>& blocks = algo_.gpus[static_cast<std::size_t>(rank)].blocks;
      clocks += blocks.size() * blocks.size();
      for (int b = 0; b < static_cast<int>(blocks.size()); ++b)
        for (std::size_t s = 0; s < blocks[static_cast<std::size_t>(b)].steps.size(); ++s) {
          MscclStep& step = blocks[static_cast<std::size_t>(b)].steps[s];
          if (step.waited_for) knowledge += blocks.size();
          TUTTI_TRY(resolve(step, blocks, {rank, b}, s));
        }
    }
    if (clocks > kMostClocks)
      return make_error(Code::kInvalidArgument,
                        "too many thread blocks: the sum of their squares over all gpus may be {}",
                        kMostClocks);
    if (knowledge > kMostKnowledge)
      return make_error(Code::kInvalidArgument,
                        "too many steps with hasdep=\"1\" beside too many thread blocks; set it "
                        "where another step waits alone");
    return ok_status();
  }

  Status resolve(MscclStep& step, const std::vector<MscclBlock>& blocks, BlockId id,
                 std::size_t number) const {
    if (step.after_block < 0) return ok_status();
    const auto refuse = [&](std::string_view what) {
      return make_error(Code::kInvalidArgument, "{}: it waits for tb {} step {}, {}",
                        place(id, number), step.after_block, step.after_step, what);
    };
    const auto other = static_cast<std::size_t>(step.after_block);
    if (other >= blocks.size() ||
        static_cast<std::size_t>(step.after_step) >= blocks[other].steps.size())
      return refuse("which does not exist");
    const std::vector<MscclStep>& steps = blocks[other].steps;
    auto told = static_cast<std::size_t>(step.after_step);
    while (told < steps.size() && !steps[told].waited_for) ++told;
    if (told == steps.size()) return refuse("and neither that nor a later one has hasdep=\"1\"");
    step.after_step = static_cast<int>(told);
    return ok_status();
  }

  MscclAlgo algo_;
  std::string_view text_;
  std::map<ConnectionKey, Ends> ends_;
};

/// One run of all thread blocks, for one placement of buffers and one depth of FIFOs.
class Execution {
 public:
  Execution(const File& file, const ir::Request& request, Assembly assembly, std::uint32_t depth,
            Patience& patience)
      : file_(file), depth_(depth), assembly_(std::move(assembly)), causes_(patience) {
    for (Rank rank = 0; rank < request.ranks; ++rank) {
      const auto& blocks = file.algo().gpus[static_cast<std::size_t>(rank)].blocks;
      orders_.emplace_back(causes_, blocks.size(), assembly_.cells(rank));
      next_.emplace_back(blocks.size(), 0);
      for (int b = 0; b < static_cast<int>(blocks.size()); ++b) runnable_.push_back({rank, b});
    }
  }

  /// Runs until nothing can move: true when every step has run, false when some wait for ever.
  Result<bool> run() {
    while (!runnable_.empty()) {
      const BlockId id = runnable_.front();
      runnable_.pop_front();
      if (step_of(id) == nullptr) continue;
      if (const auto other = awaited(id)) {
        parked_[*other].push_back(id);
        continue;
      }
      if (const Status done = execute(id); !done)
        return at_place(file_.place(id, at(id)), done.error());
      complete(id);
    }
    return std::ranges::all_of(parked_, [](const auto& entry) { return entry.second.empty(); });
  }

  /// Why the first block that is stuck is. Not before run() has yielded false.
  [[nodiscard]] Error stuck() const {
    BlockId id{std::numeric_limits<Rank>::max(), 0};
    BlockId other;
    for (const auto& [awaited, waiting] : parked_)
      for (const BlockId& each : waiting)
        if (each < id) std::tie(id, other) = std::pair(each, awaited);
    if (other == id)
      return make_error(Code::kInvalidArgument,
                        "{}: it waits for ever for a step of its own thread block, or on a "
                        "connection whose other end nobody owns",
                        file_.place(id, at(id)));
    return make_error(Code::kInvalidArgument,
                      "{}: it waits for ever for gpu {} tb {}, with FIFOs of {} messages",
                      file_.place(id, at(id)), other.rank, other.block, depth_);
  }

  Result<ir::Schedule> finish() && {
    for (const auto& [key, connection] : connections_)
      if (!connection.fifo.empty())
        return make_error(Code::kInvalidArgument,
                          "gpu {} sends {} messages on channel {} that gpu {} never receives",
                          std::get<0>(key), connection.fifo.size(), std::get<2>(key),
                          std::get<1>(key));
    return std::move(assembly_).finish();
  }

 private:
  struct Sent {
    Message message;
    StepIndex by = kNoStep;
  };
  struct Connection {
    std::deque<Sent> fifo;
    std::uint64_t sent = 0;
  };

  [[nodiscard]] std::size_t at(BlockId id) const {
    return next_[static_cast<std::size_t>(id.rank)][static_cast<std::size_t>(id.block)];
  }
  [[nodiscard]] const MscclStep* step_of(BlockId id) const {
    const std::vector<MscclStep>& steps = file_.block(id).steps;
    return at(id) < steps.size() ? &steps[at(id)] : nullptr;
  }
  Connection& incoming(BlockId id) {
    const MscclBlock& block = file_.block(id);
    return connections_[{block.recv, id.rank, block.channel}];
  }
  Connection& outgoing(BlockId id) {
    const MscclBlock& block = file_.block(id);
    return connections_[{id.rank, block.send, block.channel}];
  }
  StepOrder& order(BlockId id) { return orders_[static_cast<std::size_t>(id.rank)]; }
  [[nodiscard]] BlockStep in_order(BlockId id) const {
    return {static_cast<std::uint32_t>(id.block), static_cast<std::uint32_t>(at(id))};
  }

  /// The block that has to move before this one's next step can run. A connection without another
  /// end makes a block wait for itself.
  std::optional<BlockId> awaited(BlockId id) {
    const MscclStep& step = *step_of(id);
    const MscclBlock& block = file_.block(id);
    if (const BlockId other{id.rank, step.after_block};
        step.after_block >= 0 && at(other) <= static_cast<std::size_t>(step.after_step))
      return other;
    if (receives(step.type) && incoming(id).fifo.empty())
      return file_.ends({block.recv, id.rank, block.channel}).sender.value_or(id);
    if (sends(step.type) && outgoing(id).fifo.size() >= depth_)
      return file_.ends({id.rank, block.send, block.channel}).receiver.value_or(id);
    return std::nullopt;
  }

  void complete(BlockId id) {
    order(id).complete(in_order(id), step_of(id)->waited_for);
    ++next_[static_cast<std::size_t>(id.rank)][static_cast<std::size_t>(id.block)];
    runnable_.push_back(id);
    auto& waiting = parked_[id];
    runnable_.insert(runnable_.end(), waiting.begin(), waiting.end());
    waiting.clear();
  }

  /// The step begins; its number in the order of all.
  StepIndex begin(BlockId id, const MscclStep& step) {
    std::optional<BlockStep> awaited;
    if (step.after_block >= 0)
      awaited = {static_cast<std::uint32_t>(step.after_block),
                 static_cast<std::uint32_t>(step.after_step)};
    const StepIndex sender = receives(step.type) ? incoming(id).fifo.front().by : kNoStep;
    return order(id).begin(in_order(id), awaited, sender);
  }

  Status check_races(BlockId id, const MscclStep& step) {
    const BlockStep self = in_order(id);
    const auto visit = [&](const Run& run, bool writes) -> Status {
      if (run.count == 0) return ok_status();
      TUTTI_TRY(assembly_.check(id.rank, run));
      for (std::uint32_t i = 0; i < run.count; ++i) {
        const std::size_t cell = assembly_.cell(id.rank, run.space, run.first + i);
        const auto other = writes ? order(id).write(cell, self) : order(id).read(cell, self);
        if (other) return race(run, i, *other);
      }
      return ok_status();
    };
    TUTTI_TRY(visit(step.src, false));
    if (step.type == MscclType::kReduce) TUTTI_TRY(visit(step.dst, false));
    return visit(step.dst, true);
  }

  [[nodiscard]] Error race(const Run& run, std::uint32_t i, BlockStep other) const {
    const std::string chunk = print(Run{run.space, run.first + i, 1});
    if (causes_.gave_up())
      return make_error(Code::kUnsupported,
                        "whether it races for {} with tb {} step {} depends on more messages than "
                        "are followed; a wait (depid, deps) says it at once",
                        chunk, other.block, other.step);
    return make_error(Code::kInvalidArgument,
                      "it races for {} with tb {} step {}: neither waits nor messages order them",
                      chunk, other.block, other.step);
  }

  Status execute(BlockId id) {
    const MscclStep& step = *step_of(id);
    self_ = begin(id, step);
    TUTTI_TRY(check_races(id, step));
    std::optional<Message> arrived;
    if (receives(step.type)) {
      arrived = std::move(incoming(id).fifo.front().message);
      incoming(id).fifo.pop_front();
    }
    switch (step.type) {
      case MscclType::kSend:
        return send(id, step.src);
      case MscclType::kRecv:
        return assembly_.recv(id.rank, *arrived, step.dst);
      case MscclType::kCopy:
        return assembly_.copy(id.rank, step.src, step.dst);
      case MscclType::kReduce:
        return assembly_.reduce(id.rank, step.src, step.dst);
      case MscclType::kRecvCopySend:
        TUTTI_TRY(assembly_.recv(id.rank, *arrived, step.dst));
        return send(id, step.dst);
      case MscclType::kRecvReduceCopy:
        return assembly_.recv_reduce(id.rank, *arrived, step.src, step.dst);
      case MscclType::kRecvReduceCopySend:
        TUTTI_TRY(assembly_.recv_reduce(id.rank, *arrived, step.src, step.dst));
        return send(id, step.dst);
      case MscclType::kRecvReduceSend: {
        TUTTI_ASSIGN(Message sent, assembly_.recv_reduce_send(id.rank, *arrived, step.src,
                                                              file_.block(id).send, lane(id)));
        push(id, std::move(sent));
        return ok_status();
      }
      case MscclType::kNop:
        return ok_status();
    }
    return ok_status();
  }

  /// Of the next message that the block sends.
  Lane lane(BlockId id) {
    const auto channel = static_cast<std::uint64_t>(file_.block(id).channel);
    return static_cast<Lane>(channel * depth_ + outgoing(id).sent % depth_);
  }
  Status send(BlockId id, const Run& src) {
    TUTTI_ASSIGN(Message sent, assembly_.send(id.rank, src, file_.block(id).send, lane(id)));
    push(id, std::move(sent));
    return ok_status();
  }
  void push(BlockId id, Message message) {
    Connection& connection = outgoing(id);
    connection.fifo.push_back({std::move(message), self_});
    ++connection.sent;
  }

  const File& file_;
  std::uint32_t depth_;
  Assembly assembly_;
  Causes causes_;
  std::vector<StepOrder> orders_;               // of each gpu
  StepIndex self_ = kNoStep;                    // the step that runs
  std::vector<std::vector<std::size_t>> next_;  // the step that each block runs next
  std::deque<BlockId> runnable_;
  std::map<BlockId, std::vector<BlockId>> parked_;  // by the block that they wait for
  std::map<ConnectionKey, Connection> connections_;
};

/// The schedule for one placement of buffers, proved.
Result<ir::Schedule> schedule_of(const File& file, const MscclPurpose& purpose, bool in_place,
                                 Patience& patience) {
  const MscclAlgo& algo = file.algo();
  const ir::Request request{.collective = purpose.collective,
                            .ranks = static_cast<std::int32_t>(algo.gpus.size()),
                            .root = 0,
                            .in_place = in_place,
                            .layout = algo.layout};
  std::vector<BufferSizes> sizes;
  for (const MscclGpu& gpu : algo.gpus) sizes.push_back(gpu.sizes);
  for (const std::uint32_t depth : {1U, algo.fifo_depth}) {
    TUTTI_ASSIGN(Assembly assembly,
                 Assembly::create(request, algo.name, purpose.chunks_per_block, sizes));
    Execution execution(file, request, std::move(assembly), depth, patience);
    TUTTI_ASSIGN(const bool complete, execution.run());
    if (!complete && depth < algo.fifo_depth) continue;
    if (!complete) return execution.stuck();
    TUTTI_ASSIGN(ir::Schedule schedule, std::move(execution).finish());
    TUTTI_TRY(ir::verify(schedule));
    return schedule;
  }
  return make_error(Code::kInternal, "no depth of FIFOs was tried");
}

Result<Schedules> schedules_for(const File& file, const MscclPurpose& purpose, Patience& patience) {
  Schedules schedules;
  for (const bool in_place : {false, true}) {
    if (!(in_place ? file.algo().in_place : file.algo().out_of_place)) continue;
    Result<ir::Schedule> schedule = schedule_of(file, purpose, in_place, patience);
    if (!schedule) return at_place(in_place ? "in place" : "out of place", schedule.error());
    schedules.push_back(*std::move(schedule));
  }
  return schedules;
}

}  // namespace

Result<Schedules> read_msccl_xml(std::string_view text, std::vector<std::string>* notes) {
  TUTTI_ASSIGN(MscclAlgo algo, parse_msccl_xml(text));
  if (notes != nullptr) std::ranges::move(algo.skipped, std::back_inserter(*notes));
  TUTTI_ASSIGN(const File file, File::create(std::move(algo), text));
  Patience patience;
  std::string why_not;
  std::optional<Error> only;  // while all have the same
  for (const MscclPurpose& purpose : file.algo().purposes) {
    Result<Schedules> schedules = schedules_for(file, purpose, patience);
    if (schedules || file.algo().purposes.size() == 1 || patience.steps == 0) return schedules;
    const Error& error = schedules.error();
    if (why_not.empty()) only = error;
    if (only && only->what != error.what) only.reset();
    why_not += fmt::format("; no {}: {}", name_of(purpose.collective), error.what);
  }
  if (only) return *only;  // it does not depend on the collective: a race, a deadlock
  return make_error(Code::kUnsupported,
                    "the collective `custom` is none of those that are known here{}", why_not);
}

}  // namespace tutti::exchange
