#include "src/cost/tuner.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "src/base/result.hpp"
#include "src/cost/asked.hpp"
#include "src/cost/tuning.hpp"

namespace tutti {

Result<Tuner> Tuner::create(const std::vector<ir::Algorithm>& algorithms, TunerPolicy policy) {
  Tuner tuner(algorithms);
  tuner.forest_ = std::move(policy.forest);
  tuner.deterministic_ = policy.deterministic;
  tuner.table_ = std::move(policy.table);
  tuner.arrangement_ = policy.arrangement;
  if (policy.calibration && !policy.deterministic)
    tuner.proposals_.emplace(*std::move(policy.calibration), policy.staging_bytes);
  TUTTI_ASSIGN(const std::vector<AskedGroup> groups, groups_of(policy.forced));
  for (const AskedGroup& group : groups) {
    if (group.path.empty()) {
      TUTTI_TRY(tuner.add_setting(group.names, group.collective));
      continue;
    }
    const auto file = policy.files.find(group.path);
    if (file == policy.files.end())
      return make_error(Code::kInvalidArgument,
                        "TUTTI_ALGO names the file '{}', which nobody has read here", group.path);
    tuner.forced_.push_back({group.collective, file->second, true});
  }
  return tuner;
}

/// Asks for a list of names, or excludes them after ^.
Status Tuner::add_setting(std::string_view names, const std::string& collective) {
  const bool excludes = names.starts_with('^');
  if (excludes) names.remove_prefix(1);
  for (const std::string_view name : parts_between(names, ',')) {
    if (excludes) {  // what does not exist (NVLS ...) is not used anyway
      if (const auto* const algorithm = find(name)) excluded_.push_back({collective, algorithm});
      continue;
    }
    TUTTI_ASSIGN(const ir::Algorithm* const algorithm,
                 known_algorithm("TUTTI_ALGO (or NCCL_ALGO)", name));
    forced_.push_back({collective, algorithm});
  }
  return ok_status();
}

Result<const ir::Algorithm*> Tuner::known_algorithm(std::string_view who,
                                                    std::string_view name) const {
  if (const ir::Algorithm* const algorithm = find(name)) return algorithm;
  std::string known;
  for (const ir::Algorithm& each : *algorithms_) known += fmt::format(" {}", each.name);
  if (forest_) known += " forest";
  return make_error(Code::kInvalidArgument,
                    "{} names the algorithm '{}', which does not exist; there are:{}", who, name,
                    known);
}

const ir::Algorithm* Tuner::find(std::string_view name) const {
  const std::string wanted = normalised(name);
  for (const ir::Algorithm& algorithm : *algorithms_)
    if (normalised(algorithm.name) == wanted) return &algorithm;
  return wanted == "forest" && forest_ ? forest_() : nullptr;
}

Status Tuner::ask_for(const ir::Request& request, std::string_view algorithm,
                      std::optional<bool> kernel_reads) {
  if (algorithm.empty()) {
    wishes_.erase(request.collective);
    return ok_status();
  }
  TUTTI_ASSIGN(const ir::Algorithm* const known, known_algorithm("the caller", algorithm));
  if (!known->supports(request))
    return make_error(Code::kUnsupported,
                      "{} does no {} over {} ranks here: see `tutti algo list` for what it does",
                      known->name, name_of(request.collective), request.ranks);
  wishes_[request.collective] = {known, kernel_reads};
  return ok_status();
}

Status Tuner::check_setting(const ir::Request& request) const {
  std::string names;
  for (const Asked& asked : forced_) {
    if (asked.collective != normalised(name_of(request.collective))) continue;
    if (asked.of_file || asked.algorithm->supports(request)) return ok_status();
    names += fmt::format("{}{}", names.empty() ? "" : ", ", asked.algorithm->name);
  }
  if (names.empty()) return ok_status();
  return make_error(Code::kInvalidUsage,
                    "TUTTI_ALGO (or NCCL_ALGO) asks for {} by {}, which cannot do that over {} "
                    "ranks here: name another one (`tutti algo list`), or none",
                    name_of(request.collective), names, request.ranks);
}

namespace {

/// Formats are for floats of 16 and 32 bits.
bool can_run(const ir::Algorithm& algorithm, const Situation& situation) {
  const bool is_float = situation.type == DataType::kFloat32 ||
                        situation.type == DataType::kFloat16 ||
                        situation.type == DataType::kBfloat16;
  return algorithm.supports(situation.request) && (is_float || !algorithm.lossy);
}

/// Blocks of the longer of a rank's two buffers, of any rank.
std::size_t blocks_of(const ir::Request& request) {
  std::size_t blocks = 1;
  for (Rank rank = 0; rank < request.ranks; ++rank) {
    const ir::BlockCounts counts = ir::block_counts(request, rank);
    blocks = std::max<std::size_t>(blocks, std::max(counts.input, counts.output));
  }
  return blocks;
}

std::size_t bytes_of(const Situation& situation) {
  return situation.block_bytes * blocks_of(situation.request);
}

}  // namespace

const ir::Algorithm* Tuner::forced_for(const Situation& situation) const {
  for (const Asked& asked : forced_)
    if (asked.applies_to(situation.request.collective) && can_run(*asked.algorithm, situation))
      return asked.algorithm;
  return nullptr;
}

std::optional<Choice> Tuner::asked_choice(const Situation& situation) const {
  Choice choice;
  const auto wish = wishes_.find(situation.request.collective);
  if (wish != wishes_.end() && can_run(*wish->second.algorithm, situation)) {
    choice.by = Choice::By::kCaller;
    choice.algorithm = wish->second.algorithm;
    choice.kernel_reads = wish->second.kernel_reads;
    choice.reason = "asked for by the caller";
  } else if (const ir::Algorithm* const forced = forced_for(situation)) {
    choice.by = Choice::By::kSetting;
    choice.algorithm = forced;
    choice.reason = "asked for by TUTTI_ALGO";
  } else {
    return std::nullopt;
  }
  choice.mapped = choice.algorithm;
  return choice;
}

const ir::Algorithm* Tuner::usable_by_table(std::string_view name,
                                            const ir::Request& request) const {
  const ir::Algorithm* const algorithm = find(name);
  const bool usable = algorithm != nullptr && !algorithm->lossy && algorithm->supports(request);
  return usable ? algorithm : nullptr;
}

/// Measured was what runs through ordinary memory: in memory that all ranks of a host map, the
/// rules know more.
std::optional<Choice> Tuner::measured_choice(const Situation& situation,
                                             const lower::Placement& placement) const {
  const ir::Request& request = situation.request;
  if (deterministic_) return std::nullopt;
  const std::size_t bytes = bytes_of(situation);
  const MeasuredRange* const range = table_.find(request.collective, arrangement_, bytes);
  if (range == nullptr) return std::nullopt;
  Choice choice;
  choice.by = Choice::By::kTable;
  choice.algorithm = usable_by_table(range->way.algorithm, request);
  if (choice.algorithm == nullptr || is_excluded(choice.algorithm, request.collective))
    return std::nullopt;
  choice.mapped = choice.algorithm;
  const auto ruled = by_rules(situation, placement);
  if (placement.all_mapped() && ruled) choice.mapped = ruled->mapped;
  choice.kernel_reads = range->way.kernel_reads;
  choice.reason = fmt::format(
      "measured: {:.1f} us at {} bytes{}", static_cast<double>(range->nanos) / 1e3, range->at_bytes,
      range->next_nanos == 0 ? ""
                             : fmt::format(", the next best way {:.1f} us",
                                           static_cast<double>(range->next_nanos) / 1e3));
  return choice;
}

std::vector<std::string> Tuner::unusable_in_table(const ir::Layout& layout) const {
  std::set<std::string> names;
  for (const MeasuredRange& range : table_.ranges()) {
    Arrangement arrangement = arrangement_;
    if (range.arrangement.topology == 0) arrangement.topology = 0;
    const ir::Request request{
        .collective = range.collective, .ranks = arrangement.ranks, .layout = layout};
    if (range.arrangement != arrangement ||
        usable_by_table(range.way.algorithm, request) != nullptr)
      continue;
    names.insert(fmt::format("{} ({})", range.way.algorithm, name_of(range.collective)));
  }
  return {names.begin(), names.end()};
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
  if (auto asked = asked_choice(situation)) return *std::move(asked);
  if (auto measured = measured_choice(situation, placement)) return *std::move(measured);
  TUTTI_ASSIGN(Choice ruled, by_rules(situation, placement));
  if (auto proposed = proposed_choice(situation, placement, ruled)) return *std::move(proposed);
  return ruled;
}

std::optional<Choice> Tuner::proposed_choice(const Situation& situation,
                                             const lower::Placement& placement,
                                             const Choice& ruled) const {
  if (!proposals_ || placement.all_mapped()) return std::nullopt;
  const ir::Request& request = situation.request;
  std::vector<const ir::Algorithm*> candidates;
  for (const ir::Algorithm& algorithm : *algorithms_)
    if (!algorithm.lossy && !algorithm.only_by_name && algorithm.supports(request) &&
        !is_excluded(&algorithm, request.collective))
      candidates.push_back(&algorithm);
  const ProposedCall call{request, situation.block_bytes, situation.largest_input,
                          blocks_of(request)};
  const auto& faster = proposals_->faster_than(*ruled.algorithm, call, candidates, placement);
  if (faster.empty()) return std::nullopt;
  Choice choice;
  choice.by = Choice::By::kModel;
  choice.algorithm = choice.mapped = faster.front().algorithm;
  for (const Proposal& next : std::span(faster).subspan(1))
    choice.instead.push_back(next.algorithm);
  // Where the first calls find out which of several is the fastest, they try this one, too.
  if (!ruled.others.empty()) {
    choice.others = ruled.others;
    std::erase(choice.others, choice.algorithm);
    choice.others.insert(choice.others.begin(), ruled.algorithm);
  }
  choice.reason =
      fmt::format("predicted: {:.1f} us for calls like this, {:.1f} us by {}, the rules' choice",
                  faster.front().us, faster.front().ruled_us, ruled.algorithm->name);
  return choice;
}

Result<Choice> Tuner::by_rules(const Situation& situation,
                               const lower::Placement& placement) const {
  const ir::Request& request = situation.request;
  const bool one_host = placement.all_mapped();
  const std::size_t bytes = bytes_of(situation);
  const auto names = one_host || deterministic_
                         ? on_one_host(request.collective, situation.block_bytes, request.ranks)
                         : over_hosts(request, bytes);
  const auto candidates = usable(names, request);
  if (candidates.empty())
    return make_error(Code::kUnsupported, "no algorithm here does {} over {} ranks",
                      name_of(request.collective), request.ranks);
  Choice choice;
  choice.algorithm = choice.mapped = candidates.front();
  if (!one_host && !deterministic_) choice.instead.assign(candidates.begin() + 1, candidates.end());
  choice.others = others_than(choice.algorithm, situation, one_host, candidates);
  const auto mapped =
      usable(in_mapped_buffers(request.collective, situation.block_bytes, request.ranks), request);
  if (one_host && !mapped.empty()) choice.mapped = mapped.front();
  choice.reason = fmt::format("{} bytes over {} ranks {}", bytes, request.ranks,
                              one_host ? "of one host" : "of several hosts");
  return choice;
}

Result<Choice> Tuner::choose_compressed(const Situation& situation,
                                        const lower::Placement& placement) const {
  if (auto asked = asked_choice(situation)) return *std::move(asked);
  const ir::Request& request = situation.request;
  const bool one_host = placement.all_mapped() || deterministic_;
  const auto candidates = usable(compressed(request, situation.block_bytes, one_host), request);
  if (candidates.empty())
    return make_error(Code::kUnsupported, "no algorithm here does {} over {} ranks, compressed",
                      name_of(request.collective), request.ranks);
  Choice choice;
  choice.algorithm = choice.mapped = candidates.front();
  choice.instead.assign(candidates.begin() + 1, candidates.end());
  choice.reason =
      fmt::format("{} ranks {}", request.ranks, one_host ? "of one host" : "of several hosts");
  return choice;
}

}  // namespace tutti
