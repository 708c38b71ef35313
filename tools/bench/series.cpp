#include "tools/bench/series.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "src/base/clock.hpp"
#include "src/base/hash.hpp"
#include "src/base/result.hpp"
#include "tools/bench/stats.hpp"
#include "tools/bench/wrong.hpp"
#include "tools/program/cli.hpp"

namespace tutti::bench {
namespace {

constexpr double kShortestBatchUs = 20;
constexpr double kLongestSeriesUs = 5e5;  // half of the second that a row may take
constexpr double kWantedUncertainty = 0.02;
constexpr double kShortestSeriesUs = 2e4;  // settles what a few lucky batches would not
constexpr std::uint64_t kFirstRound = 16;
constexpr std::uint64_t kLongestRound = 1024;

double microseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

}  // namespace

Result<CrewBuffers> allocate_buffers(Crew& crew, const Options& options, std::size_t bytes) {
  constexpr std::size_t kLargestElement = 8;
  const std::size_t size = bytes + options.misalign * kLargestElement;
  CrewBuffers buffers;
  for (std::size_t i = 0; i < crew.ranks().size(); ++i) {
    for (auto* side : {&buffers.send, &buffers.recv}) {
      TUTTI_ASSIGN(Buffer host,
                   Buffer::allocate(size, crew.gpus() ? Memory::kPages : options.memory));
      RankBuffer buffer{std::move(host), std::nullopt};
      const std::span<std::byte> whole = buffer.host.whole();
      if (crew.gpus()) {
        TUTTI_ASSIGN(auto memory, crew.gpus()->allocate(i, whole.size()));
        buffer.gpu.emplace(std::move(memory));
      }
      if (options.register_buffers) {
        TUTTI_TRY(crew.register_buffer(i, buffer.for_calls(whole.data()), whole.size()));
      }
      side->push_back(std::move(buffer));
    }
  }
  return buffers;
}

Series::Series(Crew& crew, const Options& options, const Shape& shape, const CrewBuffers& buffers,
               std::uint64_t& iteration)
    : crew_(crew), options_(options), data_(shape), buffers_(buffers), iteration_(iteration) {
  const auto found = options.compressions.find(shape.test);
  if (found != options.compressions.end() && is_lossy(shape))
    lossy_.emplace(shape, found->second.format->traits(), found->second.random);
}

bool Series::place(bool in_place) {
  in_place_ = in_place;
  reported_ = false;
  placements_.clear();
  pointers_.clear();
  const Shape& shape = data_.shape();
  const std::size_t offset = options_.misalign * size_of(shape.type);
  for (std::size_t i = 0; i < crew_.ranks().size(); ++i) {
    const Rank rank = crew_.ranks()[i];
    const Blocks blocks = blocks_of(shape, rank);
    std::byte* const recv = buffers_.recv[i].host.data() + offset;
    Placement placement{buffers_.send[i].host.data() + offset, blocks.send * shape.block_bytes(),
                        recv, recv, blocks.recv * shape.block_bytes()};
    if (in_place) {
      const auto starts = in_place_offsets(shape, rank);
      if (!starts) return false;
      placement.send = recv + starts->send * shape.block_bytes();
      placement.recv = recv + starts->recv * shape.block_bytes();
      placement.guarded_bytes = std::max(blocks.send, blocks.recv) * shape.block_bytes();
    }
    placements_.push_back(placement);
    const RankBuffer& sent = in_place ? buffers_.recv[i] : buffers_.send[i];
    pointers_.push_back(
        {sent.for_calls(placement.send), buffers_.recv[i].for_calls(placement.recv)});
  }
  return true;
}

/// What fill() made, guards and all.
Status Series::upload(std::size_t i) const {
  if (!crew_.gpus()) return ok_status();
  const Placement& placement = placements_[i];
  const RankBuffer& recv = buffers_.recv[i];
  std::byte* const begin = placement.guarded - kGuardBytes;
  TUTTI_TRY(crew_.gpus()->upload(i, recv.for_calls(begin),
                                 {begin, placement.guarded_bytes + 2 * kGuardBytes}));
  if (in_place_) return ok_status();
  return crew_.gpus()->upload(i, buffers_.send[i].for_calls(placement.send),
                              {placement.send, placement.send_bytes});
}

/// What check() looks at.
Status Series::download(std::size_t i) const {
  if (!crew_.gpus()) return ok_status();
  const Placement& placement = placements_[i];
  std::byte* const begin = placement.guarded - kGuardBytes;
  return crew_.gpus()->download(i, {begin, placement.guarded_bytes + 2 * kGuardBytes},
                                buffers_.recv[i].for_calls(begin));
}

Status Series::fill() {
  ++iteration_;
  for (std::size_t i = 0; i < placements_.size(); ++i) {
    const Placement& placement = placements_[i];
    set_guard(placement.guarded - kGuardBytes);
    set_guard(placement.guarded + placement.guarded_bytes);
    if (lossy_)
      lossy_->fill(crew_.ranks()[i], iteration_, placement.send);
    else
      data_.fill(crew_.ranks()[i], iteration_, placement.send);
    TUTTI_TRY(upload(i));
  }
  return ok_status();
}

Status Series::iterate(std::uint64_t times) {
  for (std::uint64_t k = 0; k < times; ++k) {
    TUTTI_TRY(crew_.run(data_.shape(), pointers_, options_.aggregated));
    if (options_.barrier) TUTTI_TRY(crew_.barrier());
  }
  return crew_.synchronize();
}

/// Says which element was wrong first, on the lowest rank that has one; once for each form.
Status Series::report_first_wrong(std::span<const Findings> findings) {
  double first = -std::numeric_limits<double>::infinity();  // minus the rank: the largest wins
  for (std::size_t i = findings.size(); i-- > 0;) {
    if (findings[i].wrong > 0) first = -static_cast<double>(crew_.ranks()[i]);
  }
  double agreed[1] = {first};
  TUTTI_TRY(crew_.largest(agreed));
  if (!std::isfinite(first) || agreed[0] != first) return ok_status();

  const auto found = std::ranges::find_if(findings, [](const Findings& f) { return f.wrong > 0; });
  const Rank rank = crew_.ranks()[static_cast<std::size_t>(found - findings.begin())];
  const std::string algorithm = crew_.algorithm(data_.shape());
  tools::note(fmt::format("# {}\n", wrong_text(data_.shape(), in_place_, algorithm, rank, *found)));
  return ok_status();
}

/// Compares this crew's results with what they have to be; the count is over all ranks.
Result<std::uint64_t> Series::check() {
  std::vector<Findings> findings;
  double wrong[1] = {0};
  for (std::size_t i = 0; i < placements_.size(); ++i) {
    const Placement& placement = placements_[i];
    TUTTI_TRY(download(i));
    const Rank rank = crew_.ranks()[i];
    Findings found = lossy_ ? lossy_->check(rank, iteration_, placement.recv, losses_)
                            : data_.check(rank, iteration_, placement.recv);
    found.wrong += broken_guard_bytes(placement.guarded - kGuardBytes) +
                   broken_guard_bytes(placement.guarded + placement.guarded_bytes);
    wrong_here_ += found.wrong;
    wrong[0] += static_cast<double>(found.wrong);
    findings.push_back(found);
  }
  TUTTI_TRY(crew_.sum(wrong));
  if (lossy_) TUTTI_TRY(add_unequal(wrong[0]));
  if (wrong[0] != 0 && !reported_) TUTTI_TRY(report_first_wrong(findings));
  reported_ = reported_ || wrong[0] != 0;
  return static_cast<std::uint64_t>(wrong[0]);
}

/// Compressed results are to be equal to the bit, where all ranks get the same: counts the ranks
/// whose bits are not those of rank 0.
Status Series::add_unequal(double& wrong) {
  const Collective test = data_.shape().test;
  if (test != Collective::kAllReduce && test != Collective::kAllGather &&
      test != Collective::kBroadcast)
    return ok_status();
  std::vector<double> hashes;  // exact in a double
  for (const Placement& placement : placements_) {
    const std::size_t bytes = placement.guarded_bytes;
    hashes.push_back(static_cast<double>(fnv({placement.guarded, bytes}) >> 11));
  }
  const double first[1] = {crew_.ranks()[0] == 0 ? hashes[0] : 0};
  double of_rank_0[1] = {first[0]};
  TUTTI_TRY(crew_.largest(of_rank_0));
  double unequal[1] = {0};
  for (const double hash : hashes) unequal[0] += hash == of_rank_0[0] ? 0 : 1;
  wrong_here_ += static_cast<std::uint64_t>(unequal[0]);
  TUTTI_TRY(crew_.sum(unequal));
  wrong += unequal[0];
  return ok_status();
}

/// Over all crews.
Result<Timing::Loss> Series::loss() {
  double largest[2] = {losses_.largest_off, losses_.largest_wanted};
  double sums[2] = {losses_.sum_off, losses_.sum_wanted};
  TUTTI_TRY(crew_.largest(largest));
  TUTTI_TRY(crew_.sum(sums));
  const Losses all{largest[0], largest[1], sums[0], sums[1]};
  return Timing::Loss{all.max_relative(), all.mean_relative()};
}

Result<std::uint64_t> Series::checked_iteration() {
  TUTTI_TRY(fill());
  TUTTI_TRY(crew_.run(data_.shape(), pointers_, 1));
  TUTTI_TRY(crew_.synchronize());
  return check();
}

/// Microseconds of one iteration on the slowest rank, roughly; the same on every rank.
Result<double> Series::estimate_us() {
  double estimate[1] = {0};
  for (std::uint64_t times = 1;; times *= 4) {
    TUTTI_TRY(crew_.barrier());
    const TimePoint start = Clock::now();
    TUTTI_TRY(iterate(times));
    const double elapsed = microseconds(Clock::now() - start);
    estimate[0] = elapsed / static_cast<double>(times);
    TUTTI_TRY(crew_.largest(estimate));
    if (estimate[0] * static_cast<double>(times) >= kShortestBatchUs) return estimate[0];
  }
}

Status Series::run_round(const Round& round, Readings& readings) {
  // The last value is this crew's whole time; the others are batches.
  std::vector<double> times(round.batches + 1);
  TUTTI_TRY(crew_.barrier());
  for (std::uint64_t batch = 0; batch < round.batches; ++batch) {
    const TimePoint start = Clock::now();
    TUTTI_TRY(iterate(round.iterations_per_batch));
    const double elapsed = microseconds(Clock::now() - start);
    const auto operations = static_cast<double>(round.iterations_per_batch) * options_.aggregated;
    times[batch] = elapsed / operations;
    readings.total_us += elapsed;
  }
  times.back() = readings.total_us;
  TUTTI_TRY(crew_.largest(times));
  readings.slowest_total_us = times.back();
  readings.batches.insert(readings.batches.end(), times.begin(), times.end() - 1);
  readings.iterations += round.batches * round.iterations_per_batch;
  return ok_status();
}

bool Series::enough(const Readings& readings) const {
  if (options_.iterations > 0) {
    return readings.iterations >= static_cast<std::uint64_t>(options_.iterations);
  }
  if (readings.slowest_total_us < kShortestSeriesUs) return false;
  if (readings.slowest_total_us >= kLongestSeriesUs) return true;
  std::vector<double> sorted = readings.batches;
  std::ranges::sort(sorted);
  return median_uncertainty(sorted) <= kWantedUncertainty;
}

/// Rounds double, so that exchanges stay rare, and end about when the series does.
Series::Round Series::next_round(const Readings& readings, std::uint64_t per_batch,
                                 double estimate_us) const {
  const double batch_us = estimate_us * static_cast<double>(per_batch);
  const double left_us = std::max(batch_us, kLongestSeriesUs - readings.slowest_total_us);
  const auto affordable = static_cast<std::uint64_t>(std::max(1.0, left_us / 4 / batch_us));
  const std::uint64_t wanted =
      std::clamp<std::uint64_t>(readings.batches.size(), kFirstRound, kLongestRound);
  Round round{std::min(wanted, affordable), per_batch};
  if (options_.iterations > 0) {
    const std::uint64_t left =
        static_cast<std::uint64_t>(options_.iterations) - readings.iterations;
    if (left < per_batch) return {1, left};
    round.batches = std::min(std::min(left / per_batch, kLongestRound), wanted);
  }
  return round;
}

/// Fills `readings`; returns the wrong elements of the checks in between.
Result<std::uint64_t> Series::timed_rounds(Readings& readings) {
  TUTTI_ASSIGN(const double estimate, estimate_us());
  auto per_batch =
      static_cast<std::uint64_t>(std::max(1.0, std::ceil(1.25 * kShortestBatchUs / estimate)));
  if (options_.iterations > 0) {
    per_batch = std::min(per_batch, static_cast<std::uint64_t>(options_.iterations));
  }
  std::uint64_t wrong = 0;
  for (std::uint64_t number = 1; !enough(readings); ++number) {
    const bool checks = options_.checks > 0 && std::has_single_bit(number);
    if (checks) TUTTI_TRY(fill());
    TUTTI_TRY(run_round(next_round(readings, per_batch, estimate), readings));
    if (!checks) continue;
    TUTTI_ASSIGN(const std::uint64_t found, in_place_ ? checked_iteration() : check());
    wrong += found;
  }
  return wrong;
}

Result<std::optional<Timing>> Series::measure(bool in_place) {
  if (!place(in_place)) return std::optional<Timing>();
  losses_ = {};
  TUTTI_TRY(fill());
  std::uint64_t wrong = 0;
  for (int k = 0; k < options_.checks; ++k) {
    TUTTI_ASSIGN(const std::uint64_t found, checked_iteration());
    wrong += found;
  }
  TUTTI_TRY(iterate(static_cast<std::uint64_t>(options_.warmups)));
  Readings readings;
  TUTTI_ASSIGN(const std::uint64_t found, timed_rounds(readings));
  wrong += found;

  std::ranges::sort(readings.batches);
  Timing timing;
  timing.iterations = readings.iterations;
  timing.mean_us =
      readings.slowest_total_us / (static_cast<double>(readings.iterations) * options_.aggregated);
  timing.p50_us = quantile(readings.batches, 0.5);
  timing.p90_us = quantile(readings.batches, 0.9);
  timing.p99_us = quantile(readings.batches, 0.99);
  if (options_.checks > 0) timing.wrong = wrong;
  if (options_.checks > 0 && lossy_) {
    TUTTI_ASSIGN(timing.loss, loss());
  }
  return std::optional<Timing>(timing);
}

}  // namespace tutti::bench
