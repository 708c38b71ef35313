#include "src/cost/tuner.hpp"

#include <algorithm>
#include <cctype>

#include "src/base/result.hpp"

namespace tutti {
namespace {

std::string normalised(std::string_view name) {
  std::string result;
  for (const char c : name) {
    if (c == '-' || c == '_' || c == ' ') continue;
    result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  if (result == "tree") return "doublebinarytree";
  if (result == "allreduce" || result == "allgather" || result == "reducescatter") return result;
  return result;
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

/// The same between hosts: logarithmic rounds while latency rules, fewest bytes per link above.
std::vector<std::string_view> between_hosts(Collective collective, std::size_t bytes) {
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

}  // namespace

Result<Tuner> Tuner::create(const std::vector<ir::Algorithm>& algorithms, TunerPolicy policy) {
  Tuner tuner(algorithms);
  tuner.deterministic_ = policy.deterministic;
  std::string_view rest = policy.forced;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find_first_of(";,"), rest.size());
    std::string_view item = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (item.empty() || item.front() == '^') continue;
    std::string collective;
    if (const std::size_t colon = item.find(':'); colon != std::string_view::npos) {
      collective = normalised(item.substr(0, colon));
      item.remove_prefix(colon + 1);
    }
    const ir::Algorithm* algorithm = tuner.find(item);
    if (algorithm == nullptr) {
      std::string known;
      for (const ir::Algorithm& each : algorithms) known += fmt::format(" {}", each.name);
      return make_error(Code::kInvalidArgument,
                        "TUTTI_ALGO (or NCCL_ALGO) names the algorithm '{}', which does not exist; "
                        "there are:{}",
                        item, known);
    }
    tuner.forced_.emplace_back(collective, algorithm);
  }
  return tuner;
}

const ir::Algorithm* Tuner::find(std::string_view name) const {
  const std::string wanted = normalised(name);
  for (const ir::Algorithm& algorithm : *algorithms_)
    if (normalised(algorithm.name) == wanted) return &algorithm;
  return nullptr;
}

const ir::Algorithm* Tuner::forced_for(const ir::Request& request) const {
  const std::string collective = normalised(name_of(request.collective));
  for (const auto& [where, algorithm] : forced_)
    if ((where.empty() || where == collective) && algorithm->supports(request)) return algorithm;
  return nullptr;
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
  } else {
    const auto names = one_host || deterministic_
                           ? on_one_host(request.collective, situation.block_bytes, request.ranks)
                           : between_hosts(request.collective, bytes);
    for (const std::string_view name : names) {
      const ir::Algorithm* candidate = find(name);
      if (candidate == nullptr || !candidate->supports(request)) continue;
      choice.algorithm = candidate;
      break;
    }
    choice.reason = fmt::format("{} bytes over {} ranks {}", bytes, request.ranks,
                                one_host ? "of one host" : "of several hosts");
  }
  if (choice.algorithm == nullptr)
    return make_error(Code::kUnsupported, "no algorithm here does {} over {} ranks",
                      name_of(request.collective), request.ranks);
  return choice;
}

}  // namespace tutti
