#include "tools/tune/meter.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "src/base/clock.hpp"
#include "src/base/result.hpp"
#include "tools/tune/ways.hpp"

namespace tutti::tune {
namespace {

constexpr double kBatchUs = 500;  // a disturbance is short beside it, or spoils few
constexpr std::uint64_t kMostCalls = 4000;
constexpr double kShortUs = 20'000;  // calls that are run more than once before they are timed
constexpr int kFirstBatches = 3;
constexpr double kBehind = 2;            // by the first batches
constexpr double kClearlyBehind = 1.25;  // by the fastest round and by the median
constexpr double kHopeless = 4;
constexpr std::size_t kBandwidthCounts = 1 << 20;  // bytes: from here on hopeless stays hopeless
constexpr std::size_t kFewestRounds = 5, kMostRounds = 400, kRoundsBeforeJudging = 4;
constexpr int kSettlingCalls = 60;              // more than a course of trials has
constexpr std::size_t kMostSettled = 16 << 20;  // bytes: above, nothing is tried
constexpr double kConfirmed = 0.05;             // regrets above it are measured again

double microseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

}  // namespace

Status Meter::run(const bench::Shape& shape, std::uint64_t calls) {
  const bench::Pointers pointers{buffers_.send[0].host.data(), buffers_.recv[0].host.data()};
  for (std::uint64_t i = 0; i < calls; ++i) TUTTI_TRY(crew_.run(shape, {&pointers, 1}, 1));
  return ok_status();
}

/// On this rank; us of a call.
Result<double> Meter::batch_us(const bench::Shape& shape, std::uint64_t calls) {
  TUTTI_TRY(crew_.barrier());
  const TimePoint start = Clock::now();
  TUTTI_TRY(run(shape, calls));
  return microseconds(Clock::now() - start) / static_cast<double>(calls);
}

Status Meter::take_over(const bench::Shape& shape, const Contender& contender) {
  const Way& way = contender.timed.way;
  return contender.own ? crew_.set_algorithm(shape.test, "", -1)
                       : crew_.set_algorithm(shape.test, way.algorithm, way.kernel_reads ? 1 : 0);
}

/// The library's own choice first; then all ways that have room for their slots and are not known
/// to be hopeless.
Result<std::vector<Meter::Contender>> Meter::contenders(const bench::Shape& shape) {
  const std::size_t input = bench::blocks_of(shape, 0).send * shape.block_bytes();
  std::vector<Contender> contenders(1);
  contenders[0].own = true;
  contenders[0].timed.way.algorithm = crew_.algorithm(shape);
  for (const Way& way : ways_of(shape.test, host_, is_large(input), options_.algorithms)) {
    if (hopeless_.contains({shape.test, describe(way)})) continue;
    Contender contender;
    contender.timed.way = way;
    TUTTI_TRY(take_over(shape, contender));
    if (crew_.algorithm(shape) == way.algorithm) contenders.push_back(std::move(contender));
  }
  TUTTI_TRY(crew_.set_algorithm(shape.test, "", -1));
  return contenders;
}

/// A few first batches: how many calls make one of the wanted length, and whether the contender is
/// worth more.
Status Meter::estimate(const bench::Shape& shape, Contender& contender) {
  TUTTI_TRY(take_over(shape, contender));
  const bool settles =
      contender.own && options_.settles_first && bench::shown_bytes(shape) <= kMostSettled;
  TUTTI_TRY(run(shape, settles ? kSettlingCalls : 1));
  for (std::uint64_t calls = 1;; calls = contender.calls) {
    contender.least_us = std::numeric_limits<double>::infinity();
    for (int i = 0; i < kFirstBatches; ++i) {
      double slowest[1] = {0};
      TUTTI_ASSIGN(slowest[0], batch_us(shape, calls));
      TUTTI_TRY(crew_.largest(slowest));
      contender.least_us = std::min(contender.least_us, slowest[0]);
    }
    const double wanted = std::ceil(kBatchUs / std::max(contender.least_us, 0.01));
    contender.calls = std::clamp<std::uint64_t>(static_cast<std::uint64_t>(wanted), 1, kMostCalls);
    if (contender.calls <= 2 * calls) return ok_status();
  }
}

/// Another contender begins each round: what comes before the first batch is not what comes before
/// the others.
Status Meter::round(const bench::Shape& shape, std::vector<Contender>& contenders,
                    std::size_t number) {
  std::vector<double> us(contenders.size());
  for (std::size_t turn = 0; turn < contenders.size(); ++turn) {
    const std::size_t i = (number + turn) % contenders.size();
    const Contender& contender = contenders[i];
    if (!contender.measured) continue;
    TUTTI_TRY(take_over(shape, contender));
    TUTTI_TRY(run(shape, contender.least_us < kShortUs ? 3 : 1));
    TUTTI_ASSIGN(us[i], batch_us(shape, contender.calls));
  }
  TUTTI_TRY(crew_.set_algorithm(shape.test, "", -1));
  TUTTI_TRY(crew_.largest(us));
  for (std::size_t i = 0; i < contenders.size(); ++i)
    if (contenders[i].measured) contenders[i].timed.us.push_back(us[i]);
  return ok_status();
}

Status Meter::rounds(const bench::Shape& shape, std::vector<Contender>& contenders,
                     double seconds) {
  const TimePoint start = Clock::now();
  for (std::size_t done = 1; done <= kMostRounds; ++done) {
    TUTTI_TRY(round(shape, contenders, done));
    double spent[1] = {microseconds(Clock::now() - start) / 1e6};
    TUTTI_TRY(crew_.largest(spent));
    if (done >= kFewestRounds && spent[0] >= seconds) break;
    if (done < kRoundsBeforeJudging) continue;
    double least = std::numeric_limits<double>::infinity(), best = least;
    for (const Contender& contender : contenders) {
      if (!contender.measured) continue;
      least = std::min(least, std::ranges::min(contender.timed.us));
      best = std::min(best, contender.timed.median());
    }
    for (Contender& contender : contenders) {
      if (!contender.own && std::ranges::min(contender.timed.us) > kClearlyBehind * least &&
          contender.timed.median() > kClearlyBehind * best)
        contender.measured = false;
    }
  }
  return ok_status();
}

void Meter::note_hopeless(const bench::Shape& shape, const std::vector<Contender>& contenders) {
  if (bench::shown_bytes(shape) < kBandwidthCounts) return;
  const double best = std::ranges::min_element(contenders, {}, &Contender::least_us)->least_us;
  for (const Contender& contender : contenders)
    if (!contender.own && contender.least_us > kHopeless * best)
      hopeless_.insert({shape.test, describe(contender.timed.way)});
}

Result<Cell> Meter::measure(const bench::Shape& shape) {
  TUTTI_TRY(crew_.use_operator(shape));
  TUTTI_ASSIGN(std::vector<Contender> all, contenders(shape));
  for (Contender& contender : all) TUTTI_TRY(estimate(shape, contender));
  note_hopeless(shape, all);
  TUTTI_TRY(crew_.set_algorithm(shape.test, "", -1));
  all[0].timed.way.algorithm = crew_.algorithm(shape);  // what trials may have settled
  const double best = std::ranges::min_element(all, {}, &Contender::least_us)->least_us;
  std::erase_if(all, [&](const Contender& contender) {
    return !contender.own && contender.least_us > kBehind * best;
  });
  TUTTI_TRY(rounds(shape, all, options_.seconds_per_cell));
  Cell cell = cell_of(shape, all);
  // What seems best among many may have been lucky: the best few are measured afresh.
  if (regret(cell) > kConfirmed) {
    std::erase_if(
        all, [&](const Contender& contender) { return !contender.own && !contender.measured; });
    for (Contender& contender : all) contender.timed.us.clear();
    TUTTI_TRY(rounds(shape, all, 2 * options_.seconds_per_cell));
    cell = cell_of(shape, all);
  }
  return cell;
}

Cell Meter::cell_of(const bench::Shape& shape, const std::vector<Contender>& contenders) {
  Cell cell;
  cell.collective = shape.test;
  cell.bytes = bench::shown_bytes(shape);
  for (const Contender& contender : contenders) {
    if (contender.own)
      cell.own = contender.timed;
    else
      cell.candidates.push_back(contender.timed);
  }
  if (cell.candidates.empty()) cell.candidates.push_back(cell.own);
  return cell;
}

}  // namespace tutti::tune
