#include "tools/explain/candidates.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "algorithms/algorithms.hpp"
#include "src/base/result.hpp"
#include "src/cost/predict.hpp"
#include "src/exec/plan.hpp"
#include "src/ir/verify.hpp"
#include "tools/algo/names.hpp"

namespace tutti::tools {
namespace {

/// What an algorithm would do, as far as that can be told.
struct Estimate {
  std::optional<double> us;
  std::string problem;        ///< where there is no time
  std::string busiest;        ///< link; "": none is used
  std::uint64_t carried = 0;  ///< bytes, by that link
  std::uint32_t rounds = 0;
  double sent = 0;  ///< by the rank that sends most, in blocks
};

Estimate estimate(const ir::Algorithm& algorithm, const Question& question) {
  const auto schedule = algorithm.generate(question.request);
  if (!schedule) return {.us = {}, .problem = schedule.error().what, .busiest = {}};
  const sim::Amount amount{question.count, size_of(question.type)};
  const PredictOptions options{.staging_bytes = question.policy.staging_bytes};
  const auto outcome =
      question.fabric == nullptr
          ? predict(*schedule, amount, question.placement, question.calibration, options)
          : predict(*schedule, amount, question.placement, *question.fabric, question.calibration,
                    options);
  if (!outcome) return {.us = {}, .problem = outcome.error().what, .busiest = {}};
  Estimate estimate{.us = outcome->time_us, .problem = {}, .busiest = {}};
  if (const auto proof = ir::verify(*schedule)) {
    estimate.rounds = proof->rounds;
    estimate.sent = static_cast<double>(proof->max_chunks_sent) / schedule->chunks_per_block;
  }
  if (outcome->bottleneck) {
    estimate.carried = outcome->links[*outcome->bottleneck].bytes;
    estimate.busiest = question.fabric == nullptr
                           ? fmt::format("a host's network interface")
                           : question.fabric->links()[*outcome->bottleneck].name;
  }
  return estimate;
}

/// Why an algorithm that knows the collective does not support this request.
std::string missing(const ir::Algorithm& algorithm, const ir::Request& request) {
  if (request.layout.empty() && needs_of(algorithm) != Needs::kNothing)
    return "is for ranks on several hosts that they share";
  ir::Request other = request;
  other.layout = {};
  for (other.ranks = request.ranks - 1; other.ranks > 1; --other.ranks) {
    other.root = std::min(request.root, other.ranks - 1);
    if (algorithm.supports(other))
      return fmt::format("does not do {} ranks (it does {})", request.ranks, other.ranks);
  }
  return "does not do this call with ranks placed like that";
}

/// Times within this share of each other are alike: models are not that exact.
constexpr double kAlike = 0.05;

/// How many times `bytes` is more than `than`; none where it is not.
std::optional<double> times_more(double bytes, double than) {
  if (than <= 0 || bytes <= (1 + kAlike) * than) return {};
  return bytes / than;
}

class Explainer {
 public:
  Explainer(const Question& question, Choice choice)
      : question_(question), choice_(std::move(choice)) {}

  Result<Explanation> run() {
    chosen_ = estimate(*choice_.algorithm, question_);
    if (!chosen_.us)
      return make_error(Code::kUnsupported, "{} runs, and the model cannot tell how long: {}",
                        choice_.algorithm->name, chosen_.problem);
    Explanation explanation{.algorithm = std::string(choice_.algorithm->name),
                            .reason = choice_.reason,
                            .forced = choice_.by == Choice::By::kSetting,
                            .candidates = {}};
    explanation.candidates.push_back(
        {std::string(choice_.algorithm->name), true, chosen_.us, "runs"});
    for (const ir::Algorithm& algorithm : algorithms::all())
      if (algorithm.name != choice_.algorithm->name && knows_the_collective(algorithm))
        explanation.candidates.push_back(consider(algorithm));
    std::ranges::stable_sort(explanation.candidates, {}, [](const Candidate& it) {
      return std::pair(!it.us.has_value(), it.us.value_or(0));
    });
    return explanation;
  }

 private:
  [[nodiscard]] bool knows_the_collective(const ir::Algorithm& algorithm) const {
    const auto known = collectives_of(algorithm);
    return std::ranges::find(known, question_.request.collective) != known.end();
  }

  [[nodiscard]] Candidate consider(const ir::Algorithm& algorithm) const {
    Candidate candidate;
    candidate.name = algorithm.name;
    if (!algorithm.supports(question_.request)) {
      candidate.why = missing(algorithm, question_.request);
      return candidate;
    }
    const Estimate estimated = estimate(algorithm, question_);
    candidate.us = estimated.us;
    candidate.why = estimated.us ? why_not(algorithm, estimated) : estimated.problem;
    return candidate;
  }

  [[nodiscard]] std::string why_not(const ir::Algorithm& algorithm, const Estimate& its) const {
    if (choice_.by == Choice::By::kSetting) return "another was asked for";
    if (algorithm.only_by_name) return "runs only where it is asked for by name";
    if (std::ranges::find(choice_.others, &algorithm) != choice_.others.end())
      return "gives the same bits: the first calls try it, too";
    if (*its.us < (1 - kAlike) * *chosen_.us) return why_not_though_faster(*its.us / *chosen_.us);
    if (*its.us <= (1 + kAlike) * *chosen_.us) return "as fast";
    return "slower" + more_work(its);
  }

  [[nodiscard]] std::string why_not_though_faster(double ratio) const {
    if (choice_.by == Choice::By::kTable) return "faster by the model, not when measured";
    if (question_.policy.calibration && ratio >= Proposals::kClearly)
      return "faster by the model, by too little to leave the rules";
    return reduces(question_.request.collective)
               ? "faster by the model; results keep the rules' order until 'tutti tune' measures"
               : "faster by the model, not by the rules; 'tutti tune' measures";
  }

  /// What it does more than the one that runs: ": a rank sends 2 times the bytes, 11 rounds for 3".
  [[nodiscard]] std::string more_work(const Estimate& its) const {
    std::vector<std::string> more;
    if (const auto times = times_more(its.sent, chosen_.sent))
      more.push_back(fmt::format("a rank sends {:.2g} times the bytes", *times));
    if (const auto times =
            times_more(static_cast<double>(its.carried), static_cast<double>(chosen_.carried)))
      more.push_back(fmt::format("{} carries {:.2g} times the bytes", its.busiest, *times));
    if (its.rounds > chosen_.rounds)
      more.push_back(fmt::format("{} rounds for {}", its.rounds, chosen_.rounds));
    return more.empty() ? "" : fmt::format(": {}", fmt::join(more, ", "));
  }

  const Question& question_;
  const Choice choice_;
  Estimate chosen_;
};

}  // namespace

const Candidate& Explanation::chosen() const {
  return *std::ranges::find(candidates, true, &Candidate::chosen);
}

Result<Explanation> explain(const Question& question) {
  const std::vector<ir::Algorithm> known(algorithms::all().begin(), algorithms::all().end());
  TUTTI_ASSIGN(const Tuner tuner, Tuner::create(known, question.policy));
  const auto largest = exec::largest_buffers(question.request, {question.count, question.type});
  const Situation situation{.request = question.request,
                            .block_bytes = question.count * size_of(question.type),
                            .largest_input = largest.input,
                            .type = question.type,
                            .op = question.op};
  TUTTI_ASSIGN(Choice choice, tuner.choose(situation, question.placement));
  return Explainer(question, std::move(choice)).run();
}

}  // namespace tutti::tools
