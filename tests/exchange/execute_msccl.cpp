#include <deque>
#include <map>
#include <tuple>
#include <vector>

#include "src/base/result.hpp"
#include "tests/exchange/msccl_files.hpp"

namespace tutti::exchange {
namespace {

using Number = std::uint64_t;  // sums wrap around, so their order does not matter
using Numbers = std::vector<Number>;

enum class Moment : std::uint8_t { kReceive, kRead, kWrite, kSend };

struct BlockState {
  std::size_t next = 0;
  Moment moment = Moment::kReceive;
  Numbers message;  ///< received
  Numbers result;   ///< read, and combined with the message
  std::uint64_t priority = 0;
};

class Machine {
 public:
  Machine(const MscclAlgo& algo, const ir::Request& request, std::uint64_t seed)
      : algo_(algo), request_(request), random_(seed) {
    const std::uint32_t per_block = algo.purposes.front().chunks_per_block;
    for (Rank rank = 0; rank < request.ranks; ++rank) {
      const MscclGpu& gpu = algo.gpus[rank];
      const ir::BlockCounts blocks = ir::block_counts(request, rank);
      Memory memory;
      memory.input.resize(std::max<std::size_t>(gpu.sizes.input, blocks.input * per_block));
      memory.output.resize(std::max<std::size_t>(gpu.sizes.output, blocks.output * per_block));
      memory.scratch.resize(gpu.sizes.scratch);
      for (Numbers* const numbers : {&memory.output, &memory.scratch, &memory.input})
        for (Number& number : *numbers) number = random_();
      given_.push_back(memory.input);
      memories_.push_back(std::move(memory));
      blocks_.emplace_back(gpu.blocks.size());
      for (std::size_t b = 0; b < gpu.blocks.size(); ++b) {
        blocks_.back()[b].priority = random_();
        all_.emplace_back(rank, b);
      }
    }
    // In place, the bytes that overlap are input before they are output.
    for (Rank rank = 0; rank < request.ranks; ++rank)
      for (std::uint32_t chunk = 0; chunk < given_[rank].size(); ++chunk)
        *at(rank, ir::Space::kInput, chunk) = given_[rank][chunk];
  }

  Status run() {
    const bool has_priorities = random_() % 2 == 0;
    for (;;) {
      std::optional<std::pair<Rank, std::size_t>> chosen;
      std::size_t able = 0;
      for (const auto& each : all_) {
        if (!can_move(each.first, each.second)) continue;
        ++able;
        const bool better =
            !chosen || (has_priorities ? state(each).priority > state(*chosen).priority
                                       : random_() % able == 0);
        if (better) chosen = each;
      }
      if (!chosen) return check_end();
      TUTTI_TRY(move(chosen->first, chosen->second));
      if (random_() % 8 == 0) state(*chosen).priority = random_();
    }
  }

 private:
  struct Memory {
    Numbers input, output, scratch;
  };
  using Connection = std::tuple<Rank, Rank, int>;

  BlockState& state(std::pair<Rank, std::size_t> block) {
    return blocks_[block.first][block.second];
  }
  const MscclBlock& block(Rank rank, std::size_t b) const { return algo_.gpus[rank].blocks[b]; }

  /// Where a chunk lies; null outside memory.
  Number* at(Rank rank, ir::Space space, std::uint32_t chunk) {
    Memory& memory = memories_[rank];
    if (space == ir::Space::kScratch)
      return chunk < memory.scratch.size() ? &memory.scratch[chunk] : nullptr;
    if (space == ir::Space::kOutput)
      return chunk < memory.output.size() ? &memory.output[chunk] : nullptr;
    if (chunk >= memory.input.size()) return nullptr;
    const ir::Aliasing alias = ir::aliasing(request_, rank);
    const std::uint32_t per_block = algo_.purposes.front().chunks_per_block;
    const std::uint32_t first = alias.input_block * per_block;
    if (alias.exists && chunk >= first && chunk < first + alias.blocks * per_block)
      return &memory.output[chunk - first + alias.output_block * per_block];
    return &memory.input[chunk];
  }

  /// Whether what a step waits for has come. A thread block tells of steps with hasdep alone.
  bool is_told(Rank rank, const MscclStep& step) const {
    if (step.after_block < 0) return true;
    if (static_cast<std::size_t>(step.after_block) >= algo_.gpus[rank].blocks.size()) return false;
    const auto& steps = block(rank, step.after_block).steps;
    for (std::size_t s = step.after_step; s < steps.size(); ++s)
      if (steps[s].waited_for) return blocks_[rank][step.after_block].next > s;
    return false;
  }

  bool can_move(Rank rank, std::size_t b) {
    const MscclBlock& of = block(rank, b);
    const BlockState& now = blocks_[rank][b];
    if (now.next == of.steps.size()) return false;
    const MscclStep& step = of.steps[now.next];
    if (now.moment == Moment::kReceive)
      return is_told(rank, step) &&
             (!receives(step.type) || !fifos_[{of.recv, rank, of.channel}].empty());
    if (now.moment == Moment::kSend && sends(step.type))
      return fifos_[{rank, of.send, of.channel}].size() < algo_.fifo_depth;
    return true;
  }

  Status move(Rank rank, std::size_t b) {
    const MscclBlock& of = block(rank, b);
    BlockState& now = blocks_[rank][b];
    const MscclStep& step = of.steps[now.next];
    switch (now.moment) {
      case Moment::kReceive:
        if (receives(step.type)) {
          auto& fifo = fifos_[{of.recv, rank, of.channel}];
          now.message = std::move(fifo.front());
          fifo.pop_front();
        }
        now.moment = Moment::kRead;
        return ok_status();
      case Moment::kRead:
        now.moment = Moment::kWrite;
        return read(rank, now, step);
      case Moment::kWrite:
        now.moment = Moment::kSend;
        return write(rank, now, step);
      case Moment::kSend:
        if (sends(step.type)) fifos_[{rank, of.send, of.channel}].push_back(now.result);
        now.moment = Moment::kReceive;
        ++now.next;
        return ok_status();
    }
    return ok_status();
  }

  Status add(Rank rank, const Run& run, Numbers& to) {
    to.resize(std::max<std::size_t>(to.size(), run.count), 0);
    for (std::uint32_t i = 0; i < run.count; ++i) {
      const Number* const number = at(rank, run.space, run.first + i);
      if (number == nullptr) return make_error(Code::kInvalidArgument, "reads outside a buffer");
      to[i] += *number;
    }
    return ok_status();
  }

  Status read(Rank rank, BlockState& now, const MscclStep& step) {
    now.result.clear();
    if (receives(step.type)) {
      const std::uint32_t count = std::max(step.src.count, step.dst.count);
      if (now.message.size() != count)
        return make_error(Code::kInvalidArgument, "receives {} chunks, not {}", now.message.size(),
                          count);
      now.result = now.message;
    }
    if (reads_src(step.type)) TUTTI_TRY(add(rank, step.src, now.result));
    if (step.type == MscclType::kReduce) TUTTI_TRY(add(rank, step.dst, now.result));
    return ok_status();
  }

  Status write(Rank rank, const BlockState& now, const MscclStep& step) {
    if (!writes_dst(step.type)) return ok_status();
    for (std::uint32_t i = 0; i < step.dst.count; ++i) {
      Number* const number = at(rank, step.dst.space, step.dst.first + i);
      if (number == nullptr) return make_error(Code::kInvalidArgument, "writes outside a buffer");
      *number = now.result[i];
    }
    return ok_status();
  }

  Status check_end() {
    for (const auto& [rank, b] : all_)
      if (blocks_[rank][b].next < block(rank, b).steps.size())
        return make_error(Code::kInvalidArgument, "gpu {} tb {} is stuck at step {}", rank, b,
                          blocks_[rank][b].next);
    for (const auto& [connection, fifo] : fifos_)
      if (!fifo.empty())
        return make_error(Code::kInvalidArgument, "nobody receives a message of gpu {}",
                          std::get<0>(connection));
    for (Rank rank = 0; rank < request_.ranks; ++rank) {
      const std::uint32_t chunks =
          ir::block_counts(request_, rank).output * algo_.purposes.front().chunks_per_block;
      for (std::uint32_t chunk = 0; chunk < chunks; ++chunk)
        if (*at(rank, ir::Space::kOutput, chunk) != expected(rank, chunk))
          return make_error(Code::kInvalidArgument, "gpu {} o[{}] is wrong", rank, chunk);
    }
    return ok_status();
  }

  Number expected(Rank rank, std::uint32_t chunk) const {
    const std::uint32_t per_block = algo_.purposes.front().chunks_per_block;
    const std::uint32_t of_block = chunk / per_block, within = chunk % per_block;
    const auto sum = [&](std::uint32_t input) {
      Number total = 0;
      for (const Numbers& numbers : given_) total += numbers[input];
      return total;
    };
    switch (request_.collective) {
      case Collective::kAllReduce:
      case Collective::kReduce:
        return sum(chunk);
      case Collective::kReduceScatter:
        return sum(rank * per_block + within);
      case Collective::kAllGather:
      case Collective::kGather:
        return given_[of_block][within];
      case Collective::kAllToAll:
        return given_[of_block][rank * per_block + within];
      case Collective::kBroadcast:
        return given_[0][chunk];
      case Collective::kScatter:
        return given_[0][rank * per_block + within];
      case Collective::kSend:
      case Collective::kRecv:
        break;
    }
    return 0;
  }

  const MscclAlgo& algo_;
  const ir::Request& request_;
  std::mt19937_64 random_;
  std::vector<Memory> memories_;
  std::vector<Numbers> given_;
  std::vector<std::vector<BlockState>> blocks_;
  std::vector<std::pair<Rank, std::size_t>> all_;
  std::map<Connection, std::deque<Numbers>> fifos_;
};

}  // namespace

Status execute(const MscclAlgo& algo, const ir::Request& request, std::uint64_t seed) {
  return Machine(algo, request, seed).run();
}

}  // namespace tutti::exchange
