#include "src/cost/tuner.hpp"

#include <algorithm>
#include <bit>
#include <cctype>
#include <string>
#include <vector>

#include "src/base/result.hpp"
#include "src/cost/tuning.hpp"

namespace tutti {
namespace {

std::string normalised(std::string_view name) {
  std::string result;
  for (const char c : name) {
    if (c == '-' || c == '_' || c == ' ') continue;
    result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  if (result == "tree") return "doublebinarytree";
  return result;
}

/// The parts between separators that are not empty.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    if (end > 0) parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

Result<std::string> known_collective(std::string_view name) {
  std::string wanted = normalised(name);
  std::string known;
  for (int c = 0; c < kCollectives; ++c) {
    const std::string_view each = name_of(static_cast<Collective>(c));
    if (normalised(each) == wanted) return wanted;
    known += fmt::format(" {}", each);
  }
  return make_error(Code::kInvalidArgument,
                    "TUTTI_ALGO (or NCCL_ALGO) names the collective '{}', which does not exist; "
                    "there are:{}",
                    name, known);
}

constexpr std::string_view kFile = "file:";

/// One part of TUTTI_ALGO: "names", "collective:names", "file:PATH" or "collective:file:PATH".
struct Group {
  std::string collective;  ///< normalised; "" for all
  std::string_view names;  ///< a list, or "" where there is a path
  std::string_view path;
};

Result<std::vector<Group>> groups_of(std::string_view forced) {
  std::vector<Group> groups;
  for (std::string_view text : split(forced, ';')) {
    Group group;
    const std::size_t colon = text.find(':');
    if (colon != std::string_view::npos && !text.starts_with(kFile)) {
      TUTTI_ASSIGN(group.collective, known_collective(text.substr(0, colon)));
      text.remove_prefix(colon + 1);
    }
    if (text == kFile)
      return make_error(Code::kInvalidArgument,
                        "TUTTI_ALGO (or NCCL_ALGO) names no file after 'file:'; write file:PATH");
    if (text.starts_with(kFile))
      group.path = text.substr(kFile.size());
    else
      group.names = text;
    groups.push_back(std::move(group));
  }
  return groups;
}

/// Preferred names, best first, on one host, where every rank reads every other's memory.
std::vector<std::string_view> on_one_host(Collective collective, std::size_t bytes,
                                          std::int32_t ranks) {
  // A single pass that reads all inputs beats two passes while its n-fold reading is cheap.
  const bool small = bytes * static_cast<std::size_t>(ranks) <= 64 * 1024;
  switch (collective) {
    case Collective::kAllReduce:
      return small ? std::vector<std::string_view>{"one_shot", "two_shot"}
                   : std::vector<std::string_view>{"two_shot", "one_shot"};
    case Collective::kReduce:
      return small || ranks == 2 ? std::vector<std::string_view>{"one_shot", "two_shot"}
                                 : std::vector<std::string_view>{"two_shot", "one_shot"};
    case Collective::kReduceScatter:
      return {"one_shot", "ring"};
    case Collective::kAllGather:
    case Collective::kBroadcast:
    case Collective::kAllToAll:
    case Collective::kGather:
    case Collective::kScatter:
      return {"direct"};
    case Collective::kSend:
    case Collective::kRecv:
      break;
  }
  return {};
}

/// What comes before those where ranks load and store each other's buffers: there the root of a
/// broadcast does its share, and two ranks add a half each.
std::vector<std::string_view> in_mapped_buffers(Collective collective, std::size_t bytes,
                                                std::int32_t ranks) {
  // All wait for all then, and no longer for the root alone: ranks that share CPUs take turns more
  // often, which up to 256 KiB cost 3 to 8 ranks on 2 CPUs as much as it gained or more.
  const bool worth_meeting = ranks == 2 || bytes > 256 * 1024;
  if (collective == Collective::kBroadcast && worth_meeting) return {"spread"};
  if (collective == Collective::kReduce && bytes > 64 * 1024) return {"two_shot"};
  return {};
}

/// Whether the names for one host are of equal results, and so near in speed that a machine may
/// prefer either. All sizes of one class (src/cost/tuning.hpp) have the same answer.
bool are_rivals(Collective collective, std::size_t bytes, std::int32_t ranks) {
  if (collective != Collective::kAllReduce && collective != Collective::kReduce) return false;
  const std::uint8_t size = size_class(bytes);
  if (size >= 32) return false;
  const std::uint64_t read = (std::uint64_t{1} << size) * static_cast<std::uint64_t>(ranks);
  return read > 16 * 1024 && read <= 512 * 1024;
}

/// The same for two ranks on two hosts: straight from where it is to where it is wanted, and added
/// in rank order, as on one host.
std::vector<std::string_view> between_two(Collective collective, std::size_t bytes) {
  switch (collective) {
    case Collective::kAllReduce:
      // In one shot they wait for one round instead of two; but each adds everything, and not half
      // of it.
      if (bytes <= 128 * 1024) return {"one_shot", "two_shot"};
      return {"two_shot", "one_shot"};
    case Collective::kReduce:
    case Collective::kReduceScatter:
      return {"one_shot", "ring"};
    case Collective::kAllGather:
    case Collective::kBroadcast:
    case Collective::kAllToAll:
    case Collective::kGather:
    case Collective::kScatter:
      return {"direct", "ring"};
    case Collective::kSend:
    case Collective::kRecv:
      break;
  }
  return {};
}

/// The same for more: logarithmic rounds while latency rules, fewest bytes per link above.
std::vector<std::string_view> between_hosts(Collective collective, std::size_t bytes,
                                            std::int32_t ranks) {
  if (ranks == 2) return between_two(collective, bytes);
  const bool small = bytes <= 64 * 1024;
  const bool tiny = bytes <= 4 * 1024;
  switch (collective) {
    case Collective::kAllReduce:
      if (tiny) return {"recursive_doubling", "ring"};
      if (small) return {"circulant", "ring"};
      return {"ring"};
    case Collective::kAllGather:
    case Collective::kReduceScatter:
      if (small) return {"circulant", "ring"};
      return {"ring"};
    case Collective::kBroadcast:
    case Collective::kReduce:
      return {"circulant_blocks", "ring"};
    case Collective::kAllToAll:
      if (tiny) return {"bruck", "pairwise", "direct"};
      return {"pairwise", "direct"};
    case Collective::kGather:
    case Collective::kScatter:
      return {"direct"};
    case Collective::kSend:
    case Collective::kRecv:
      break;
  }
  return {};
}

/// What comes before those where several ranks share each host: what crosses from host to host is
/// then as little as can be, and all ranks of a host carry it.
std::vector<std::string_view> in_two_levels(Collective collective, std::size_t bytes) {
  const bool small = bytes <= 64 * 1024;
  switch (collective) {
    case Collective::kAllReduce:
      if (small) return {"leader_doubling"};
      return {"hierarchical_ring"};
    case Collective::kAllGather:
    case Collective::kReduceScatter:
      if (small) return {"hierarchical_circulant"};
      return {"hierarchical_ring"};
    case Collective::kBroadcast:
    case Collective::kReduce:
      if (small) return {"leader_tree"};
      return {"hierarchical_tree"};
    case Collective::kAllToAll:
      // What has to be passed on inside hosts costs more than fewer messages gain, if it is much.
      if (bytes <= 1024 * 1024) return {"hierarchical_pairwise"};
      return {};
    default:
      return {};
  }
}

/// Ranks share hosts, and no host has far more than another: a rank alone on its host would have to
/// answer each of the many of another host.
bool in_levels(const ir::Request& request) {
  if (request.layout.empty()) return false;
  const auto nodes = ir::nodes_of(request.layout);
  const auto [least, most] = std::ranges::minmax(nodes, {}, &std::vector<Rank>::size);
  return most.size() <= 2 * least.size();
}

std::vector<std::string_view> over_hosts(const ir::Request& request, std::size_t bytes) {
  std::vector<std::string_view> names;
  if (in_levels(request)) names = in_two_levels(request.collective, bytes);
  const auto flat = between_hosts(request.collective, bytes, request.ranks);
  names.insert(names.end(), flat.begin(), flat.end());
  return names;
}

/// Whether a reduction has the same bits by every algorithm for several hosts: integers and their
/// extremes do in any order. Floats do where two ranks choose one of two numbers, which they do in
/// rank order. They do not where two ranks add: of two NaNs the sum is either, depending on where
/// in a vector register they meet (src/reduce/reduce.hpp).
bool is_exact(DataType type, ReduceOp op, std::int32_t ranks) {
  const bool is_integer = type <= DataType::kUint64;
  return is_integer || (ranks == 2 && (op == ReduceOp::kMax || op == ReduceOp::kMin));
}

/// Those of them that give the same bits and are so near in speed that the machines and the network
/// may prefer either; all sizes of one class (src/cost/tuning.hpp) have the same answer, and the
/// guess is among them. What is only moved arrives the same whichever way it took; what is added
/// has to be exact. Sums of floats differ with the algorithm, and results that do not change from
/// run to run are worth more than what the fastest one saves: there the guess stays.
std::vector<std::string_view> rivals_between_hosts(const Situation& situation) {
  const Collective collective = situation.request.collective;
  const std::int32_t ranks = situation.request.ranks;
  const std::uint8_t size = size_class(situation.largest_input);
  constexpr int kBand = 3;  // powers of two on each side of a threshold of between_hosts()
  const auto near = [size](int threshold) {
    return size > threshold - kBand && size <= threshold + kBand;
  };
  constexpr int kTiny = 12, kSmall = 16, kForTwo = 17;
  if (reduces(collective) && !is_exact(situation.type, situation.op, ranks)) return {};
  const bool levels = in_levels(situation.request);
  if (ranks == 2) {
    if (collective == Collective::kAllReduce && near(kForTwo)) return {"one_shot", "two_shot"};
    return {};  // nothing else has another way to go
  }
  std::vector<std::string_view> names;
  switch (collective) {
    case Collective::kAllReduce:
      if (levels && !near(kSmall)) return {};
      if (levels) return {"leader_doubling", "hierarchical_ring", "ring"};
      if (near(kTiny)) names.emplace_back("recursive_doubling");
      if (near(kTiny) || near(kSmall)) names.emplace_back("circulant");
      if (near(kSmall)) names.emplace_back("ring");
      return names;
    case Collective::kReduceScatter:
      if (near(kSmall) && levels) return {"hierarchical_circulant", "hierarchical_ring", "ring"};
      if (near(kSmall)) return {"circulant", "ring"};
      break;
    case Collective::kAllGather:  // whose thresholds are of the output
      if (near(kSmall - std::bit_width(static_cast<std::uint32_t>(ranks - 1)))) {
        if (levels) return {"hierarchical_circulant", "hierarchical_ring", "direct"};
        return {"circulant", "ring", "direct"};
      }
      break;
    case Collective::kBroadcast: {
      constexpr std::uint64_t kMostSent = 4 << 20;  // by the root: a course is to be cheap
      const bool cheap = size <= 20 && static_cast<std::uint64_t>(ranks - 1) << size <= kMostSent;
      if (cheap && levels) return {"leader_tree", "hierarchical_tree", "direct"};
      if (cheap) return {"circulant_blocks", "direct"};
      break;
    }
    case Collective::kAllToAll:
      if (near(kTiny) && levels) return {"hierarchical_pairwise", "pairwise", "direct"};
      if (near(kTiny)) return {"bruck", "pairwise", "direct"};
      break;
    default:
      break;
  }
  return {};
}

}  // namespace

Result<Tuner> Tuner::create(const std::vector<ir::Algorithm>& algorithms, TunerPolicy policy) {
  Tuner tuner(algorithms);
  tuner.deterministic_ = policy.deterministic;
  TUTTI_ASSIGN(const std::vector<Group> groups, groups_of(policy.forced));
  for (const Group& group : groups) {
    if (group.path.empty()) {
      TUTTI_TRY(tuner.ask_for(group.names, group.collective));
      continue;
    }
    const auto file = policy.files.find(group.path);
    if (file == policy.files.end())
      return make_error(Code::kInvalidArgument,
                        "TUTTI_ALGO names the file '{}', which nobody has read here", group.path);
    tuner.forced_.push_back({group.collective, file->second});
  }
  return tuner;
}

/// Asks for a list of names, or excludes them after ^.
Status Tuner::ask_for(std::string_view names, const std::string& collective) {
  const bool excludes = names.starts_with('^');
  if (excludes) names.remove_prefix(1);
  for (const std::string_view name : split(names, ',')) {
    if (excludes) {  // what does not exist (NVLS ...) is not used anyway
      if (const auto* const algorithm = find(name)) excluded_.push_back({collective, algorithm});
      continue;
    }
    TUTTI_ASSIGN(const ir::Algorithm* const algorithm, known_algorithm(name));
    forced_.push_back({collective, algorithm});
  }
  return ok_status();
}

Result<std::vector<std::string>> files_of(std::string_view forced) {
  TUTTI_ASSIGN(const std::vector<Group> groups, groups_of(forced));
  std::vector<std::string> paths;
  for (const Group& group : groups)
    if (!group.path.empty()) paths.emplace_back(group.path);
  if (paths.size() > kMostFiles)
    return make_error(Code::kInvalidArgument, "TUTTI_ALGO names {} files; at most {} are accepted",
                      paths.size(), kMostFiles);
  return paths;
}

Result<const ir::Algorithm*> Tuner::known_algorithm(std::string_view name) const {
  if (const ir::Algorithm* const algorithm = find(name)) return algorithm;
  std::string known;
  for (const ir::Algorithm& each : *algorithms_) known += fmt::format(" {}", each.name);
  return make_error(Code::kInvalidArgument,
                    "TUTTI_ALGO (or NCCL_ALGO) names the algorithm '{}', which does not exist; "
                    "there are:{}",
                    name, known);
}

const ir::Algorithm* Tuner::find(std::string_view name) const {
  const std::string wanted = normalised(name);
  for (const ir::Algorithm& algorithm : *algorithms_)
    if (normalised(algorithm.name) == wanted) return &algorithm;
  return nullptr;
}

const ir::Algorithm* Tuner::forced_for(const ir::Request& request) const {
  for (const Asked& asked : forced_)
    if (asked.applies_to(request.collective) && asked.algorithm->supports(request))
      return asked.algorithm;
  return nullptr;
}

/// Those of them that can do it and are not excluded.
std::vector<const ir::Algorithm*> Tuner::usable(const std::vector<std::string_view>& names,
                                                const ir::Request& request) const {
  std::vector<const ir::Algorithm*> algorithms;
  for (const std::string_view name : names) {
    const ir::Algorithm* const candidate = find(name);
    if (candidate != nullptr && candidate->supports(request) &&
        !is_excluded(candidate, request.collective))
      algorithms.push_back(candidate);
  }
  return algorithms;
}

/// What may be tried in place of `guess`, the first of the `candidates`.
std::vector<const ir::Algorithm*> Tuner::others_than(
    const ir::Algorithm* guess, const Situation& situation, bool one_host,
    std::vector<const ir::Algorithm*> candidates) const {
  const ir::Request& request = situation.request;
  if (one_host) {
    if (!are_rivals(request.collective, situation.block_bytes, request.ranks)) return {};
  } else {
    if (deterministic_) return {};
    candidates = usable(rivals_between_hosts(situation), request);
  }
  if (std::erase(candidates, guess) == 0) return {};
  return candidates;
}

bool Tuner::is_excluded(const ir::Algorithm* algorithm, Collective collective) const {
  return std::ranges::any_of(excluded_, [&](const Asked& asked) {
    return asked.algorithm == algorithm && asked.applies_to(collective);
  });
}

bool Tuner::Asked::applies_to(Collective wanted) const {
  return collective.empty() || collective == normalised(name_of(wanted));
}

Result<Choice> Tuner::choose(const Situation& situation, const lower::Placement& placement) const {
  const ir::Request& request = situation.request;
  const bool one_host = placement.all_mapped();
  std::size_t blocks = 1;
  for (Rank rank = 0; rank < request.ranks; ++rank) {
    const ir::BlockCounts counts = ir::block_counts(request, rank);
    blocks = std::max<std::size_t>(blocks, std::max(counts.input, counts.output));
  }
  const std::size_t bytes = situation.block_bytes * blocks;

  Choice choice;
  const ir::Algorithm* forced = forced_for(request);
  if (forced != nullptr && !(forced->lossy && situation.type != DataType::kFloat32)) {
    choice.algorithm = forced;
    choice.reason = "asked for by TUTTI_ALGO";
    choice.forced = true;
  } else {
    const auto names = one_host || deterministic_
                           ? on_one_host(request.collective, situation.block_bytes, request.ranks)
                           : over_hosts(request, bytes);
    const auto candidates = usable(names, request);
    if (!candidates.empty()) choice.algorithm = candidates.front();
    if (candidates.size() > 1 && !one_host && !deterministic_)
      choice.instead.assign(candidates.begin() + 1, candidates.end());
    choice.others = others_than(choice.algorithm, situation, one_host, candidates);
    const auto mapped = usable(
        in_mapped_buffers(request.collective, situation.block_bytes, request.ranks), request);
    if (one_host && !mapped.empty()) choice.mapped = mapped.front();
    choice.reason = fmt::format("{} bytes over {} ranks {}", bytes, request.ranks,
                                one_host ? "of one host" : "of several hosts");
  }
  if (choice.algorithm == nullptr)
    return make_error(Code::kUnsupported, "no algorithm here does {} over {} ranks",
                      name_of(request.collective), request.ranks);
  if (choice.mapped == nullptr) choice.mapped = choice.algorithm;
  return choice;
}

}  // namespace tutti
