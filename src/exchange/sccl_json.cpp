#include "src/exchange/sccl_json.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "src/exchange/assembly.hpp"
#include "src/exchange/collective_names.hpp"
#include "src/exchange/json_node.hpp"
#include "src/ir/verify.hpp"

namespace tutti::exchange {
namespace {

using Address = std::int64_t;
constexpr Address kMostAddresses = std::int64_t{1} << 20;
constexpr std::uint64_t kMostContributions = std::uint64_t{1} << 22;  // words of all sets

struct Send {
  Address address = 0;
  Rank source = 0;
  Rank destination = 0;
  std::string path;
};

struct Algorithm {
  std::string name;
  ir::Request request;
  std::uint32_t chunks_per_block = 1;
  std::vector<std::map<Address, std::uint32_t>> inputs, outputs;  // of each rank: address to chunk
  std::vector<Address> addresses;                                 // ascending; all there are
  std::vector<std::vector<Send>> steps;
};

class ScclParser {
 public:
  explicit ScclParser(const JsonNode& root) : root_(root) {}

  Result<Algorithm> run() && {
    TUTTI_TRY(collective());
    TUTTI_ASSIGN(algorithm_.inputs, buffers("input_map"));
    TUTTI_ASSIGN(algorithm_.outputs, buffers("output_map"));
    TUTTI_TRY(shape());
    TUTTI_TRY(root_.for_each("steps", [&](const JsonNode& node) { return step(node); }));
    std::set<Address> known;
    for (const auto* maps : {&algorithm_.inputs, &algorithm_.outputs})
      for (const auto& map : *maps)
        for (const auto& [address, chunk] : map) known.insert(address);
    algorithm_.addresses.assign(known.begin(), known.end());
    return std::move(algorithm_);
  }

 private:
  Status collective() {
    algorithm_.name = plain_name(root_.word("name"));
    TUTTI_ASSIGN(const JsonNode node, root_.at("collective"));
    TUTTI_ASSIGN(const std::int64_t ranks, node.number("nodes", 1, kMostRanks));
    const std::string name = node.word("runtime_name");
    const auto collective = collective_of(name);
    if (!collective)
      return node.wrong(Code::kUnsupported, "runtime_name {} has no counterpart here; there are:{}",
                        shown(name), all_collective_names());
    algorithm_.request = {*collective, static_cast<std::int32_t>(ranks), 0, false};
    return ok_status();
  }

  /// The addresses of each rank in ascending order are its buffer from the beginning.
  Result<std::vector<std::map<Address, std::uint32_t>>> buffers(std::string_view key) const {
    TUTTI_ASSIGN(const JsonNode map, root_.at(key));
    std::vector<std::map<Address, std::uint32_t>> chunks;
    for (Rank rank = 0; rank < algorithm_.request.ranks; ++rank) {
      auto& mine = chunks.emplace_back();
      const std::string name = std::to_string(rank);
      TUTTI_TRY(map.for_each(name, [&](const JsonNode& node) -> Status {
        TUTTI_ASSIGN(const Address address, node.number(0, kMostAddresses - 1));
        mine.emplace(address, 0);
        return ok_status();
      }));
      std::uint32_t chunk = 0;
      for (auto& [address, number] : mine) number = chunk++;
    }
    return chunks;
  }

  /// The root, and how many chunks a block has: what the sizes of the buffers say.
  Status shape() {
    ir::Request& request = algorithm_.request;
    const auto& rooted_at =
        request.collective == Collective::kReduce || request.collective == Collective::kGather
            ? algorithm_.outputs
            : algorithm_.inputs;
    if (rooted(request.collective)) {
      const auto has = [](const auto& map) { return !map.empty(); };
      if (std::ranges::count_if(rooted_at, has) != 1)
        return root_.wrong(Code::kInvalidArgument,
                           "one root was expected of a {}, found several or none",
                           name_of(request.collective));
      request.root = static_cast<Rank>(std::ranges::find_if(rooted_at, has) - rooted_at.begin());
    }
    std::size_t most = 0;
    for (const auto* maps : {&algorithm_.inputs, &algorithm_.outputs})
      for (const auto& map : *maps) most = std::max(most, map.size());
    const auto blocks = static_cast<std::size_t>(ir::largest_block_count(request));
    algorithm_.chunks_per_block =
        static_cast<std::uint32_t>(std::max<std::size_t>(most / blocks, 1));
    for (Rank rank = 0; rank < request.ranks; ++rank) {
      const ir::BlockCounts counts = ir::block_counts(request, rank);
      const std::size_t per_block = algorithm_.chunks_per_block;
      const auto r = static_cast<std::size_t>(rank);
      if (algorithm_.inputs[r].size() != per_block * static_cast<std::size_t>(counts.input) ||
          algorithm_.outputs[r].size() != per_block * static_cast<std::size_t>(counts.output))
        return root_.wrong(Code::kInvalidArgument,
                           "rank {} has {} addresses of input and {} of output; {} and {} blocks "
                           "of {} were expected",
                           rank, algorithm_.inputs[r].size(), algorithm_.outputs[r].size(),
                           counts.input, counts.output, per_block);
    }
    return ok_status();
  }

  Status step(const JsonNode& node) {
    std::vector<Send>& sends = algorithm_.steps.emplace_back();
    return node.for_each("sends", [&](const JsonNode& each) -> Status {
      if (++sends_ > kMostSteps)
        return each.wrong(Code::kInvalidArgument, "at most {} sends were expected", kMostSteps);
      if (!each.value().is_array() || each.value().size() != 3)
        return each.wrong(Code::kInvalidArgument, "[address, source, destination] was expected");
      TUTTI_ASSIGN(const Address address, each.at(0).number(0, kMostAddresses - 1));
      const Rank last = algorithm_.request.ranks - 1;
      TUTTI_ASSIGN(const std::int64_t source, each.at(1).number(0, last));
      TUTTI_ASSIGN(const std::int64_t destination, each.at(2).number(0, last));
      if (source == destination)
        return each.wrong(Code::kInvalidArgument, "rank {} sends to itself", source);
      sends.push_back(
          {address, static_cast<Rank>(source), static_cast<Rank>(destination), each.path()});
      return ok_status();
    });
  }

  const JsonNode& root_;
  Algorithm algorithm_;
  std::uint64_t sends_ = 0;
};

/// Who has contributed to a value: a bit for each rank.
using Contributions = std::vector<bool>;

bool contains(const Contributions& all, const Contributions& some) {
  for (std::size_t i = 0; i < all.size(); ++i)
    if (some[i] && !all[i]) return false;
  return true;
}
bool disjoint(const Contributions& a, const Contributions& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i] && b[i]) return false;
  return true;
}

/// Runs the steps for one placement of buffers.
class ScclExecution {
 public:
  ScclExecution(const Algorithm& algorithm, Assembly assembly)
      : algorithm_(algorithm), assembly_(std::move(assembly)), held_(algorithm.inputs.size()) {
    for (std::size_t rank = 0; rank < held_.size(); ++rank)
      for (const auto& [address, chunk] : algorithm.inputs[rank]) {
        Contributions own(held_.size(), false);
        own[rank] = true;
        held_[rank].emplace(address, Held{{ir::Space::kInput, chunk, 1}, std::move(own)});
      }
  }

  Result<ir::Schedule> run() && {
    for (const std::vector<Send>& step : algorithm_.steps) TUTTI_TRY(execute(step));
    for (std::size_t rank = 0; rank < held_.size(); ++rank)
      for (const auto& [address, chunk] : algorithm_.outputs[rank]) {
        const auto held = held_[rank].find(address);
        if (held == held_[rank].end() || held->second.at.space != ir::Space::kInput) continue;
        TUTTI_TRY(assembly_.copy(static_cast<Rank>(rank), held->second.at,
                                 {ir::Space::kOutput, chunk, 1}));
      }
    ir::Schedule schedule = std::move(assembly_).finish();
    TUTTI_TRY(ir::verify(schedule));
    return schedule;
  }

 private:
  struct Held {
    Run at;
    Contributions from;
  };
  struct UnderWay {
    const Send* send;
    Message message;
    Contributions from;
  };

  /// All sends come before all receives; those between two ranks have a lane each, so that none
  /// waits for another.
  Status execute(const std::vector<Send>& step) {
    std::map<std::pair<Rank, Rank>, std::uint32_t> lanes;
    std::vector<UnderWay> under_way;
    for (const Send& send : step) {
      const auto& mine = held_[static_cast<std::size_t>(send.source)];
      const auto held = mine.find(send.address);
      if (held == mine.end())
        return make_error(Code::kInvalidArgument, "{}: rank {} has nothing at address {} yet",
                          send.path, send.source, send.address);
      const std::uint32_t lane = lanes[{send.source, send.destination}]++;
      if (lane > std::numeric_limits<Lane>::max())
        return make_error(Code::kInvalidArgument, "{}: at most {} sends of a step were expected",
                          send.path, std::numeric_limits<Lane>::max());
      Result<Message> message =
          assembly_.send(send.source, held->second.at, send.destination, static_cast<Lane>(lane));
      if (!message) return at_place(send.path, message.error());
      under_way.push_back({&send, *std::move(message), held->second.from});
    }
    for (const UnderWay& each : under_way)
      if (const Status received = receive(each); !received)
        return at_place(each.send->path, received.error());
    return ok_status();
  }

  Status receive(const UnderWay& each) {
    const Rank rank = each.send->destination;
    auto& mine = held_[static_cast<std::size_t>(rank)];
    const Run home = home_of(rank, each.send->address);
    const auto held = mine.find(each.send->address);
    if (held == mine.end() || contains(each.from, held->second.from)) {
      TUTTI_TRY(assembly_.recv(rank, each.message, home));
      mine.insert_or_assign(each.send->address, Held{home, each.from});
      return ok_status();
    }
    if (!disjoint(each.from, held->second.from))
      return make_error(Code::kInvalidArgument,
                        "what arrives at address {} of rank {} is in part there already",
                        each.send->address, rank);
    TUTTI_TRY(assembly_.recv_reduce(rank, each.message, held->second.at, home));
    held->second.at = home;
    for (std::size_t i = 0; i < each.from.size(); ++i)
      if (each.from[i]) held->second.from[i] = true;
    return ok_status();
  }

  /// Where a rank keeps what arrives at an address.
  [[nodiscard]] Run home_of(Rank rank, Address address) const {
    const auto& outputs = algorithm_.outputs[static_cast<std::size_t>(rank)];
    if (const auto output = outputs.find(address); output != outputs.end())
      return {ir::Space::kOutput, output->second, 1};
    const auto number = std::ranges::lower_bound(algorithm_.addresses, address);
    return {ir::Space::kScratch, static_cast<std::uint32_t>(number - algorithm_.addresses.begin()),
            1};
  }

  const Algorithm& algorithm_;
  Assembly assembly_;
  std::vector<std::map<Address, Held>> held_;  // of each rank
};

}  // namespace

Result<Schedules> read_sccl_json(std::string_view text) {
  TUTTI_ASSIGN(const nlohmann::json json, parse_json(text));
  const JsonNode root(json);
  TUTTI_ASSIGN(const Algorithm algorithm, ScclParser(root).run());
  const auto ranks = static_cast<std::uint64_t>(algorithm.request.ranks);
  if (ranks * algorithm.addresses.size() * (ranks / 64 + 1) > kMostContributions)
    return make_error(Code::kInvalidArgument, "{} addresses over {} ranks are too many",
                      algorithm.addresses.size(), ranks);
  Schedules schedules;
  for (const bool in_place : {false, true}) {
    if (in_place && algorithm.request.collective == Collective::kAllToAll) continue;
    ir::Request request = algorithm.request;
    request.in_place = in_place;
    const std::vector<BufferSizes> sizes(algorithm.inputs.size(),
                                         {0, 0, algorithm.addresses.size()});
    TUTTI_ASSIGN(Assembly assembly,
                 Assembly::create(request, algorithm.name, algorithm.chunks_per_block, sizes));
    TUTTI_ASSIGN(ir::Schedule schedule, ScclExecution(algorithm, std::move(assembly)).run());
    schedules.push_back(std::move(schedule));
  }
  return schedules;
}

}  // namespace tutti::exchange
