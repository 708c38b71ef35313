#include "tools/explain/compressed.hpp"

#include <utility>
#include <vector>

#include "algorithms/algorithms.hpp"
#include "src/base/result.hpp"
#include "src/comm/compressor.hpp"
#include "src/cost/predict.hpp"
#include "src/exec/plan.hpp"
#include "src/ir/verify.hpp"
#include "src/sim/simulate.hpp"
#include "tools/sim/run.hpp"

namespace tutti::tools {
namespace {

Situation situation_of(const Question& question, std::size_t count) {
  const auto largest = exec::largest_buffers(question.request, {count, question.type});
  return {.request = question.request,
          .block_bytes = count * size_of(question.type),
          .largest_input = largest.input,
          .type = question.type,
          .op = question.op};
}

Result<double> time_of(const Question& question, const ir::Schedule& schedule, std::size_t count,
                       const simtool::Compressed* compressed) {
  PredictOptions options{.staging_bytes = question.policy.staging_bytes};
  if (compressed != nullptr) {
    options.formats = compressed->costs_for(size_of(question.type));
    options.unit = compressed->unit;
  }
  const sim::Amount amount{count, size_of(question.type)};
  TUTTI_ASSIGN(const sim::Outcome outcome,
               question.fabric == nullptr
                   ? predict(schedule, amount, question.placement, question.calibration, options)
                   : predict(schedule, amount, question.placement, *question.fabric,
                             question.calibration, options));
  return outcome.time_us;
}

/// The schedule that a compressed call of that size runs.
Result<simtool::Routed> schedule_of(const Question& question, const Tuner& tuner,
                                    std::size_t count) {
  TUTTI_ASSIGN(const Choice choice,
               tuner.choose_compressed(situation_of(question, count), question.placement));
  std::vector<const ir::Algorithm*> candidates = choice.instead;
  candidates.insert(candidates.begin(), choice.algorithm);
  Error last;
  for (const ir::Algorithm* const candidate : candidates) {
    TUTTI_ASSIGN(ir::Schedule schedule, candidate->generate(question.request));
    auto made = simtool::compressed({std::move(schedule), {}});
    if (made) return made;
    last = std::move(made).error();
  }
  return last;
}

struct Times {
  double compressed = 0, plain = 0;
};
Result<Times> times_at(const Question& question, const Tuner& tuner, std::size_t count,
                       const simtool::Compressed& how) {
  TUTTI_ASSIGN(const simtool::Routed compressed, schedule_of(question, tuner, count));
  TUTTI_ASSIGN(const Choice choice,
               tuner.choose(situation_of(question, count), question.placement));
  TUTTI_ASSIGN(const ir::Schedule plain, choice.algorithm->generate(question.request));
  Times times;
  TUTTI_ASSIGN(times.compressed, time_of(question, compressed.schedule, count, &how));
  TUTTI_ASSIGN(times.plain, time_of(question, plain, count, nullptr));
  return times;
}

}  // namespace

Result<CompressedCall> explain_compressed(const Question& question, std::string_view format) {
  Call call;
  call.collective = question.request.collective;
  call.type = question.type;
  call.op = question.op;
  if (!is_compressible(call))
    return make_error(Code::kInvalidArgument,
                      "a {} of {} ({}) is not compressed: sums, averages and copies of float, half "
                      "and bfloat16 are",
                      name_of(call.collective), name_of(call.type), name_of(call.op));
  const std::vector<ir::Algorithm> known(algorithms::all().begin(), algorithms::all().end());
  TUTTI_ASSIGN(const Tuner tuner, Tuner::create(known, question.policy));
  TUTTI_ASSIGN(const simtool::Compressed how, simtool::compressed_as(format));
  if (how.compression.format->traits().bits >= 8.0 * static_cast<double>(size_of(question.type)))
    return make_error(Code::kInvalidArgument,
                      "{} takes {:.4g} bits a value, no fewer than {}: such calls travel plain",
                      how.compression.text(), how.compression.format->traits().bits,
                      name_of(question.type));
  TUTTI_ASSIGN(const simtool::Routed routed, schedule_of(question, tuner, question.count));
  TUTTI_ASSIGN(const ir::Proof proof, ir::verify(routed.schedule));
  TUTTI_ASSIGN(const Times times, times_at(question, tuner, question.count, how));
  CompressedCall found{.format = how.compression.text(),
                       .bits = how.compression.format->traits().bits,
                       .algorithm = routed.schedule.algorithm,
                       .roundings = proof.lossy_steps,
                       .between_hosts = routed.compressed == ir::CompressedMessages::kBetweenHosts,
                       .us = times.compressed,
                       .plain_us = times.plain,
                       .pays_from = {}};
  constexpr std::size_t kLeast = 1 << 10, kMost = 1 << 30;
  const auto each =
      static_cast<std::size_t>(sim::size_of_call(question.request, {1, size_of(question.type)}));
  for (std::size_t bytes = kLeast; bytes <= kMost && !found.pays_from; bytes *= 2) {
    if (bytes < each) continue;
    TUTTI_ASSIGN(const Times at, times_at(question, tuner, bytes / each, how));
    if (at.compressed < at.plain) found.pays_from = bytes;
  }
  return found;
}

std::string format_of_setting(std::string_view setting, Collective collective) {
  const auto asked = parse_compress_setting(setting);
  if (!asked) return "";
  for (const AskedCompression& one : *asked)
    if (one.collective == collective) return one.compression.text();
  return "";
}

}  // namespace tutti::tools
