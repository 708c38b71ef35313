#include "tests/device/job.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "src/exec/cuda/image.hpp"
#include "src/ir/request.hpp"
#include "tests/device/bits.hpp"

namespace tutti::device::testing {
namespace {

/// Ranks act in an order drawn from a seed, and may neglect a duty.
struct Restless {
  static bool neglects(Duty duty) {
    return neglected.load(std::memory_order_relaxed) == static_cast<int>(duty);
  }
  /// Mostly nothing; a few times in a call, let others run for a while.
  static void dawdle() {
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    if (random % 16 != 0 || times_left == 0) return;
    --times_left;
    for (std::uint64_t i = random / 16 % most_yields; i > 0; --i) std::this_thread::yield();
  }

  static inline std::atomic<int> neglected{-1};
  static inline thread_local std::uint64_t random = 1;
  static inline thread_local std::uint64_t most_yields = 1;
  static inline thread_local std::uint32_t times_left = 0;
};

struct alignas(kLineBytes) Line {
  std::byte bytes[kLineBytes];
};

constexpr std::size_t kGuard = 64;
constexpr std::uint32_t kTimesToDawdle = 8;  // in a call

std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

/// A rank while calls run.
struct RankState {
  RankState(const Shape& shape, std::uint64_t area_bytes, std::size_t memory_bytes)
      : meeting(shape.blocks * shape.threads_per_block),
        workspaces(shape.blocks),
        area(area_bytes / kLineBytes),
        memory(memory_bytes / kLineBytes + 1) {
    for (std::uint32_t block = 0; block < shape.blocks; ++block)
      blocks.push_back(std::make_unique<Rendezvous>(shape.threads_per_block));
  }
  [[nodiscard]] std::byte* area_data() { return area.front().bytes; }
  [[nodiscard]] std::byte* memory_data() { return memory.front().bytes; }

  Rendezvous meeting;  ///< of all its threads
  std::vector<std::unique_ptr<Rendezvous>> blocks;
  std::vector<Workspace> workspaces;
  std::vector<Line> area, memory;
};

class Job {
 public:
  Job(const Shape& shape, const AreaShape& area, const std::vector<PlannedCall>& calls,
      const JobOptions& options)
      : shape_(shape), area_(area), calls_(calls), options_(options) {
    std::size_t memory = 0;
    for (const PlannedCall& call : calls)
      for (const RankMemory& rank : call.before) memory = std::max(memory, rank.bytes.size());
    for (Rank rank = 0; rank < shape.ranks; ++rank)
      ranks_.push_back(
          std::make_unique<RankState>(shape, shape.blocks * area.block_bytes(), memory));
    count_from(options.first_call);
    if (options.aborted) abort_ = 1;
  }

  std::string run() {
    Restless::neglected = options_.neglected ? static_cast<int>(*options_.neglected) : -1;
    std::vector<std::thread> crew;
    std::uint64_t seed = options_.seed;
    for (Rank rank = 0; rank < shape_.ranks; ++rank)
      for (std::uint32_t block = 0; block < shape_.blocks && rank != options_.absent; ++block)
        for (std::uint32_t thread = 0; thread < shape_.threads_per_block; ++thread)
          crew.emplace_back([this, rank, block, thread, own_seed = ++seed] {
            be_thread(rank, block, thread, own_seed);
          });
    for (std::thread& thread : crew) thread.join();
    Restless::neglected = -1;
    return wrong_;
  }

 private:
  /// As if there had been calls before.
  void count_from(std::uint64_t first_call) {
    for (const auto& rank : ranks_)
      for (std::uint32_t block = 0; block < shape_.blocks; ++block) {
        std::byte* const part = rank->area_data() + block * area_.block_bytes();
        const auto put = [&](std::uint64_t offset, std::uint64_t value) {
          std::memcpy(part + offset, &value, sizeof value);
        };
        put(AreaShape::calls(), first_call - 1);
        for (std::uint32_t peer = 0; peer < kMaxRanks; ++peer)
          put(AreaShape::word(peer), word_at(first_call - 1, 0));
      }
  }

  void be_thread(Rank rank, std::uint32_t block, std::uint32_t thread, std::uint64_t seed) {
    Restless::random = seed * 0x9e3779b97f4a7c15 | 1;
    Restless::most_yields = !options_.slow ? 4 : *options_.slow == rank ? 64 : 1;
    RankState& state = *ranks_[rank];
    const bool leads = block == 0 && thread == 0;
    for (const PlannedCall& call : calls_) {
      Restless::times_left = kTimesToDawdle;
      Restless::dawdle();
      if (leads) prepare(rank, call);
      (void)state.meeting.meet(false);
      bool over = true;
      if (block < call.blocks) over = run_block(rank, block, thread, call);
      if (state.meeting.meet(!over)) return report(gave_up(call));
      if (leads) check(rank, call);
    }
  }

  std::string gave_up(const PlannedCall& call) {
    const std::uint64_t failure = load_acquire(&failure_);
    const bool aborted = Failure::wake(failure) == Wake::kAborted;
    return fmt::format("{}: {} waiting for rank {}", call.name, aborted ? "aborted" : "timed out",
                       Failure::peer(failure));
  }

  bool run_block(Rank rank, std::uint32_t index, std::uint32_t thread, const PlannedCall& call) {
    RankState& state = *ranks_[rank];
    Launch launch;
    launch.image = call.images[rank].data();
    launch.factor_bits = call.factor_bits[rank];
    launch.patience = {&abort_, options_.timeout_ns};
    launch.failure = &failure_;
    for (Rank peer = 0; peer < shape_.ranks; ++peer) {
      launch.bases.areas[peer] = ranks_[peer]->area_data();
      launch.bases.inputs[peer] = ranks_[peer]->memory_data() + call.before[peer].input;
      launch.bases.outputs[peer] = ranks_[peer]->memory_data() + call.before[peer].output;
    }
    const HostBlock block(index, call.blocks, thread, *state.blocks[index]);
    return Interpreter<HostBlock, Restless>(block, state.workspaces[index], launch).run();
  }

  void prepare(Rank rank, const PlannedCall& call) {
    const std::vector<std::byte>& bytes = call.before[rank].bytes;
    std::memcpy(ranks_[rank]->memory_data(), bytes.data(), bytes.size());
  }

  void check(Rank rank, const PlannedCall& call) {
    const std::vector<std::byte>& wanted = call.after[rank].bytes;
    std::byte* const memory = ranks_[rank]->memory_data();
    if (std::memcmp(memory, wanted.data(), wanted.size()) != 0) {
      const auto at = std::ranges::mismatch(wanted, std::span(memory, wanted.size())).in1;
      report(fmt::format(
          "{}: rank {} has wrong data {} bytes behind the begin of its output", call.name, rank,
          at - wanted.begin() - static_cast<std::ptrdiff_t>(call.after[rank].output)));
    }
    // Nobody may look at it any more, nor write.
    std::memset(memory, 0x5a, wanted.size());
  }

  /// Ends the calls of all.
  void report(std::string what) {
    const std::lock_guard lock(mutex_);
    if (wrong_.empty()) wrong_ = std::move(what);
    store_release(&abort_, 1U);
  }

  const Shape& shape_;
  const AreaShape& area_;
  const std::vector<PlannedCall>& calls_;
  const JobOptions& options_;
  std::vector<std::unique_ptr<RankState>> ranks_;
  std::uint32_t abort_ = 0;
  std::uint64_t failure_ = 0;
  std::mutex mutex_;
  std::string wrong_;
};

/// A rank's buffers with random numbers: in place where the request says so, else apart.
RankMemory make_memory(const Call& call, Rank rank, std::mt19937_64& random) {
  const std::size_t element = size_of(call.volume.type);
  const ir::Request& request = call.lowered->request;
  const exec::BufferElements elements = exec::buffer_elements(request, call.volume, rank);
  const std::size_t ins = elements.input * element, outs = elements.output * element;
  const ir::Aliasing alias = ir::aliasing(request, rank);
  const std::size_t block = call.volume.count * element;
  RankMemory memory;
  memory.input = kGuard + random() % 16 * element;
  if (request.in_place && alias.exists) {
    memory.output = memory.input + static_cast<std::size_t>(alias.input_block) * block;
    memory.input += static_cast<std::size_t>(alias.output_block) * block;
  } else {
    memory.output = round_up(memory.input + ins, kGuard) + kGuard + random() % 16 * element;
  }
  memory.bytes.resize(round_up(std::max(memory.input + ins, memory.output + outs), kGuard) +
                      kGuard);
  fill_with_numbers(call.volume.type, random, memory.bytes);
  return memory;
}

}  // namespace

AreaShape area_for(const std::vector<lower::Lowered>& programs, std::size_t most_input_bytes) {
  constexpr std::uint64_t kShortSlice = 2 * kLineBytes;
  AreaShape area;
  std::uint64_t slots = 0, scratch = 0, ranks = 0;
  for (const lower::Lowered& lowered : programs) {
    ranks = std::max<std::uint64_t>(ranks, lowered.programs.size());
    slots = std::max(slots, std::uint64_t{lowered.max_slot_pieces} * lowered.slot_depth);
    for (const lower::Program& program : lowered.programs)
      scratch = std::max(scratch, std::uint64_t{program.scratch_pieces} * program.scratch_depth);
  }
  area.slot_bytes = slots * kShortSlice;
  area.scratch_bytes = scratch * kShortSlice;
  // Twice the data, and each chunk may have to be rounded up.
  area.packet_bytes = round_up(ranks * (4 * most_input_bytes + ranks * 256), kLineBytes);
  return area;
}

std::optional<PlannedCall> plan(const Call& call, std::uint32_t blocks, const AreaShape& area,
                                std::mt19937_64& random) {
  const ir::Request& request = call.lowered->request;
  PlannedCall planned;
  planned.name =
      fmt::format("{} {} {} over {} ranks, root {}, in place: {}, {} {} of {}, {} blocks",
                  call.lowered->algorithm, name_of(call.lowered->protocol),
                  name_of(request.collective), request.ranks, request.root, request.in_place,
                  call.volume.count, name_of(call.volume.type), name_of(call.op), blocks);
  planned.type = call.volume.type;
  planned.blocks = blocks;
  planned.factor_bits = call.factor_bits;
  for (Rank rank = 0; rank < request.ranks; ++rank) {
    auto image = exec::cuda::build_image(*call.lowered, call.volume, rank, {call.op, blocks, area});
    if (!image) {
      ADD_FAILURE() << planned.name << ": " << image.error().what;
      return std::nullopt;
    }
    planned.images.push_back(*std::move(image));
    planned.before.push_back(make_memory(call, rank, random));
  }
  planned.after = planned.before;
  if (run_sequentially(call, planned.after)) return planned;
  ADD_FAILURE() << planned.name << ": got stuck where one thread runs it";
  return std::nullopt;
}

std::string run_calls(const Shape& shape, const AreaShape& area,
                      const std::vector<PlannedCall>& calls, const JobOptions& options) {
  return Job(shape, area, calls, options).run();
}

}  // namespace tutti::device::testing
