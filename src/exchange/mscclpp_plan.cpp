#include "src/exchange/mscclpp_plan.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "src/exchange/collective_names.hpp"

namespace tutti::exchange {
namespace {

constexpr std::int64_t kMostPlanChunks = std::int64_t{1} << 22;
constexpr std::int64_t kMostIndices = 65536;  // of lists in the file

struct OpKind {
  std::string_view name;
  PlanVerb verb;
  bool awaits_packets = false;
  bool signals = false;
};

constexpr OpKind kOps[] = {
    {"nop", PlanVerb::kNothing},
    {"flush", PlanVerb::kNothing},
    {"barrier", PlanVerb::kBarrier},
    {"signal", PlanVerb::kSignal},
    {"rlxsignal", PlanVerb::kSignal},
    {"wait", PlanVerb::kWait},
    {"rlxwait", PlanVerb::kWait},
    {"copy", PlanVerb::kCopy},
    {"put", PlanVerb::kCopy},
    {"pws", PlanVerb::kCopy, false, true},
    {"pwsf", PlanVerb::kCopy, false, true},
    {"get", PlanVerb::kCopy},
    {"ppkt", PlanVerb::kCopy},
    {"cpkt", PlanVerb::kCopy},
    {"upkt", PlanVerb::kCopy, true},
    {"rppkt", PlanVerb::kCopy, true},
    {"re", PlanVerb::kReduce},
    {"res", PlanVerb::kReduce},
    {"rre", PlanVerb::kReduce},
    {"rres", PlanVerb::kReduce},
    {"repkt", PlanVerb::kReduce, true},
    {"respkt", PlanVerb::kReduce, true},
};

const OpKind* kind_of(std::string_view name) {
  const auto* const found = std::ranges::find(kOps, name, &OpKind::name);
  return found == std::end(kOps) ? nullptr : found;
}

std::optional<ir::Space> space_of(std::string_view type) {
  constexpr std::string_view kBuffers = "ios";
  if (type.size() != 1 || kBuffers.find(type) == std::string_view::npos) return std::nullopt;
  return static_cast<ir::Space>(kBuffers.find(type));
}

/// memory 0, port 1; nothing for others, such as switch.
std::optional<int> channel_kind(std::string_view name) {
  if (name == "memory") return 0;
  if (name == "port") return 1;
  return std::nullopt;
}
constexpr std::size_t kKinds = 2;

/// The tables of a gpu and of a thread block that operations refer to by number.
struct Tables {
  struct Remote {
    Rank rank = 0;
    ir::Space space = ir::Space::kInput;
  };
  std::array<std::vector<PlanChannel>, kKinds> channels;     // of the gpu, by kind
  std::vector<Remote> remotes;                               // of the gpu
  std::array<std::vector<std::size_t>, kKinds> channel_ids;  // of the thread block
  std::array<std::vector<std::size_t>, kKinds> remote_ids;   // of the thread block
};

class MscclppParser {
 public:
  explicit MscclppParser(const JsonNode& root) : root_(root) {}

  Result<Plan> run() && {
    TUTTI_TRY(header());
    std::size_t index = 0;
    TUTTI_TRY(root_.for_each("gpus", [&](const JsonNode& node) { return gpu(node, index++); }));
    return shaped();
  }

 private:
  Status header() {
    plan_.name = plain_name(root_.word("name"));
    TUTTI_ASSIGN(const std::size_t ranks, root_.size_of("gpus"));
    if (ranks < 1 || ranks > static_cast<std::size_t>(kMostRanks))
      return root_.wrong(Code::kInvalidArgument, "1 to {} gpus were expected, found {}", kMostRanks,
                         ranks);
    TUTTI_TRY(check_schema());
    const std::string name = root_.word("collective");
    const auto collective = collective_of(name);
    if (!collective)
      return root_.wrong(Code::kUnsupported,
                         "the collective {} has no counterpart here; there are:{}", shown(name),
                         all_collective_names());
    const auto is_true = [&](std::string_view key) {
      return root_.has(key) && root_.value()[std::string(key)] == true;
    };
    if (is_true("reuse_resources"))
      return root_.wrong(Code::kUnsupported, "plans with reuse_resources have no counterpart here");
    plan_.request = {*collective, static_cast<std::int32_t>(ranks), 0, is_true("inplace")};
    plan_.gpus.resize(ranks);
    return ok_status();
  }

  /// Plans of MSCCL++ before 0.7 name their buffers otherwise and may not name their collective.
  Status check_schema() const {
    const nlohmann::json& gpus = root_.value()["gpus"];
    const bool is_older = std::ranges::any_of(gpus, [](const nlohmann::json& gpu) {
      return gpu.is_object() && (gpu.contains("inputChunks") || gpu.contains("chunkGroups"));
    });
    if (!is_older) return ok_status();
    return root_.wrong(Code::kUnsupported,
                       "an older schema (inputChunks, chunkGroups) is not read: make the plan anew "
                       "with MSCCL++ 0.7 or later");
  }

  /// Chunks of a block: the largest buffer of any gpu has a block for each rank, or is one.
  Result<Plan> shaped() {
    std::uint64_t most = 1;
    for (const PlanGpu& gpu : plan_.gpus)
      most = std::max({most, gpu.sizes.input, gpu.sizes.output});
    const auto blocks = static_cast<std::uint64_t>(ir::largest_block_count(plan_.request));
    if (most % blocks != 0)
      return root_.wrong(Code::kInvalidArgument,
                         "the largest buffer has {} chunks; a multiple of {} was expected", most,
                         blocks);
    plan_.chunks_per_block = static_cast<std::uint32_t>(most / blocks);
    return std::move(plan_);
  }

  Status gpu(const JsonNode& node, std::size_t index) {
    const auto own = static_cast<std::int64_t>(index);
    TUTTI_TRY(node.number("id", own, own));
    PlanGpu& gpu = plan_.gpus[index];
    TUTTI_ASSIGN(const std::int64_t inputs, node.number("input_chunks", 0, kMostPlanChunks));
    TUTTI_ASSIGN(const std::int64_t outputs, node.number("output_chunks", 0, kMostPlanChunks));
    TUTTI_ASSIGN(const std::int64_t scratch, node.number("scratch_chunks", 0, kMostPlanChunks));
    gpu.sizes = {static_cast<std::uint64_t>(inputs), static_cast<std::uint64_t>(outputs),
                 static_cast<std::uint64_t>(scratch)};
    tables_ = {};
    own_ = static_cast<Rank>(index);
    TUTTI_TRY(node.for_each("channels", [&](const JsonNode& each) { return channels(each); }));
    TUTTI_TRY(node.for_each("remote_buffers", [&](const JsonNode& each) { return remote(each); }));
    return node.for_each("threadblocks", [&](const JsonNode& each) { return block(each, gpu); });
  }

  Status channels(const JsonNode& node) {
    const auto kind = channel_kind(node.word("channel_type"));
    if (!kind) return ok_status();  // refused where an operation uses it
    std::vector<PlanChannel>& list = tables_.channels[static_cast<std::size_t>(*kind)];
    return node.for_each("connected_to", [&](const JsonNode& each) -> Status {
      TUTTI_ASSIGN(const std::int64_t peer, each.number(0, plan_.request.ranks - 1));
      const auto before = std::ranges::count(list, static_cast<Rank>(peer), &PlanChannel::peer);
      list.push_back({static_cast<Rank>(peer), *kind, static_cast<int>(before)});
      return list.size() <= kMostListed
                 ? ok_status()
                 : each.wrong(Code::kInvalidArgument, "at most {} channels were expected",
                              kMostListed);
    });
  }

  Status remote(const JsonNode& node) {
    TUTTI_ASSIGN(const std::int64_t rank, node.number("rank", 0, plan_.request.ranks - 1));
    const auto space = space_of(node.word("type"));
    if (!space) return node.wrong(Code::kInvalidArgument, "type i, o or s was expected");
    tables_.remotes.push_back({static_cast<Rank>(rank), *space});
    return ok_status();
  }

  /// A thread block's list of numbers into a list of the gpu, by the kind of channel.
  Status numbers(const JsonNode& node, std::string_view kind_key, std::string_view key,
                 std::array<std::vector<std::size_t>, kKinds>& by_kind) const {
    const auto kind = channel_kind(node.word(kind_key));
    if (!kind) return ok_status();
    return node.for_each(key, [&](const JsonNode& each) -> Status {
      TUTTI_ASSIGN(const std::int64_t number, each.number(0, kMostIndices));
      by_kind[static_cast<std::size_t>(*kind)].push_back(static_cast<std::size_t>(number));
      return ok_status();
    });
  }

  Status block(const JsonNode& node, PlanGpu& gpu) {
    tables_.channel_ids = {};
    tables_.remote_ids = {};
    TUTTI_TRY(node.for_each("channels", [&](const JsonNode& each) {
      return numbers(each, "channel_type", "channel_ids", tables_.channel_ids);
    }));
    TUTTI_TRY(node.for_each("remote_buffer_refs", [&](const JsonNode& each) {
      return numbers(each, "access_channel_type", "remote_buffer_ids", tables_.remote_ids);
    }));
    std::vector<PlanOp>& ops = gpu.blocks.emplace_back();
    return node.for_each("ops", [&](const JsonNode& each) { return op(each, ops); });
  }

  Status op(const JsonNode& node, std::vector<PlanOp>& ops) {
    const std::string name = node.word("name");
    const OpKind* const kind = kind_of(name);
    if (kind == nullptr)
      return node.wrong(Code::kUnsupported, "the operation {} has no counterpart here",
                        shown(name));
    if (++ops_ > kMostSteps)
      return node.wrong(Code::kInvalidArgument, "at most {} operations were expected", kMostSteps);
    TUTTI_TRY(only_block(node));
    PlanOp& op = ops.emplace_back();
    op.verb = kind->verb;
    op.awaits_packets = kind->awaits_packets;
    op.signals = kind->signals;
    op.path = node.path();
    if (op.verb == PlanVerb::kNothing) return ok_status();
    if (op.verb == PlanVerb::kBarrier) return barrier(node, op);
    const auto channel_type =
        channel_kind(node.has("channel_type") ? node.word("channel_type") : std::string("memory"));
    if (!channel_type)
      return node.wrong(Code::kUnsupported, "{} on a {} channel has no counterpart here", name,
                        shown(node.word("channel_type")));
    const auto by_kind = static_cast<std::size_t>(*channel_type);
    TUTTI_TRY(node.for_each(
        "src_buff", [&](const JsonNode& each) { return operand(each, by_kind, op.sources); }));
    TUTTI_TRY(node.for_each(
        "dst_buff", [&](const JsonNode& each) { return operand(each, by_kind, op.destinations); }));
    TUTTI_TRY(node.for_each(
        "channel_ids", [&](const JsonNode& each) { return channel(each, by_kind, op.channels); }));
    return check(node, name, op);
  }

  /// Operations that several thread blocks share cover a part of their chunks each.
  static Status only_block(const JsonNode& node) {
    if (!node.has("tbg_info")) return ok_status();
    TUTTI_ASSIGN(const JsonNode group, node.at("tbg_info"));
    if (group.has("tbg_size") && group.value()["tbg_size"] == 1) return ok_status();
    return node.wrong(Code::kUnsupported,
                      "an operation that several thread blocks share has no counterpart here");
  }

  static Status barrier(const JsonNode& node, PlanOp& op) {
    TUTTI_ASSIGN(const std::int64_t id, node.number("barrier_id", 0, kMostIndices));
    TUTTI_ASSIGN(const std::int64_t blocks, node.number("num_threadblocks", 1, kMostIndices));
    op.barrier = static_cast<int>(id);
    op.barrier_blocks = static_cast<int>(blocks);
    return ok_status();
  }

  static Status check(const JsonNode& node, std::string_view name, const PlanOp& op) {
    const bool moves = op.verb == PlanVerb::kCopy || op.verb == PlanVerb::kReduce;
    if (moves && (op.sources.empty() || op.destinations.empty()))
      return node.wrong(Code::kInvalidArgument, "{} without src_buff or dst_buff", name);
    if (op.verb == PlanVerb::kCopy && op.sources.size() > 1 &&
        op.sources.size() != op.destinations.size())
      return node.wrong(Code::kInvalidArgument, "{} with {} sources and {} destinations", name,
                        op.sources.size(), op.destinations.size());
    if (op.verb == PlanVerb::kReduce && op.destinations[0].rank != op.sources[0].rank)
      return node.wrong(Code::kUnsupported,
                        "{} whose first destination and source are of different gpus has no "
                        "counterpart here",
                        name);
    const bool synchronises =
        op.signals || op.verb == PlanVerb::kSignal || op.verb == PlanVerb::kWait;
    if (synchronises && op.channels.empty())
      return node.wrong(Code::kInvalidArgument, "{} without channel_ids", name);
    return ok_status();
  }

  Status operand(const JsonNode& node, std::size_t kind, std::vector<PlanOperand>& into) {
    TUTTI_ASSIGN(const std::int64_t first, node.number("index", 0, kMostPlanChunks));
    TUTTI_ASSIGN(const std::int64_t count, node.number("size", 1, kMostPlanChunks));
    named_ += static_cast<std::uint64_t>(count);
    if (named_ > kMostNamed)
      return node.wrong(Code::kInvalidArgument, "all operations name more than {} chunks",
                        kMostNamed);
    PlanOperand operand{
        own_,
        {ir::Space::kInput, static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(count)}};
    if (node.has("buffer_id")) {
      const auto& ids = tables_.remote_ids[kind];
      TUTTI_ASSIGN(const std::int64_t id, node.number("buffer_id", 0, kMostIndices));
      const auto at = static_cast<std::size_t>(id);
      if (at >= ids.size() || ids[at] >= tables_.remotes.size())
        return node.wrong(Code::kInvalidArgument, "there is no remote buffer {}", id);
      operand.rank = tables_.remotes[ids[at]].rank;
      operand.run.space = tables_.remotes[ids[at]].space;
    } else if (const auto space = space_of(node.word("type"))) {
      operand.run.space = *space;
    } else {
      return node.wrong(Code::kUnsupported,
                        "neither a type i, o or s nor a buffer_id: it has no counterpart here");
    }
    into.push_back(operand);
    return ok_status();
  }

  Status channel(const JsonNode& node, std::size_t kind, std::vector<PlanChannel>& into) const {
    const auto& ids = tables_.channel_ids[kind];
    TUTTI_ASSIGN(const std::int64_t id, node.number(0, kMostIndices));
    const auto at = static_cast<std::size_t>(id);
    if (at >= ids.size() || ids[at] >= tables_.channels[kind].size())
      return node.wrong(Code::kInvalidArgument, "there is no channel {}", id);
    into.push_back(tables_.channels[kind][ids[at]]);
    return ok_status();
  }

  static constexpr std::size_t kMostListed = 4096;

  const JsonNode& root_;
  Plan plan_;
  Tables tables_;  // of the gpu and thread block that are being read
  Rank own_ = 0;   // that gpu
  std::uint64_t ops_ = 0;
  std::uint64_t named_ = 0;
};

}  // namespace

Result<Plan> parse_mscclpp_plan(const JsonNode& root) { return MscclppParser(root).run(); }

}  // namespace tutti::exchange
