#include "tools/algo/proofs.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "src/base/clock.hpp"
#include "src/base/result.hpp"
#include "src/ir/compress.hpp"
#include "src/ir/verify.hpp"
#include "tools/algo/names.hpp"

namespace tutti::tools {
namespace {

using ir::Algorithm;
using ir::Layout;
using ir::Request;

std::int32_t ranks_of(const Layout& layout) {
  return static_cast<std::int32_t>(layout.cells.size());
}

/// Every even shape of two levels from 2x2 to 8x8, and a sample of all others.
std::vector<Layout> sample_layouts() {
  std::vector<Layout> layouts;
  for (std::int32_t nodes = 2; nodes <= 8; ++nodes)
    for (std::int32_t ranks = 2; ranks <= 8; ++ranks)
      layouts.push_back(Layout::grid({ranks, nodes}));
  for (const char* text : {"2,1",
                           "1,2",
                           "3,2",
                           "1,3,2",
                           "4,1,1",
                           "2,2,3,1",
                           "5,4",
                           "8,7",
                           "1,1,6",
                           "8,8,3",
                           "3,8,5,2,7",
                           "2x2:0,2,1,3",
                           "2x2x2",
                           "2x1x3",
                           "3x2x4",
                           "3x3x3",
                           "2x2x2x2",
                           "2x3:5,0,4,1,3,2",
                           "4x4x4",
                           "2x4x8",
                           "2x2x2x8",
                           "2x2x2x2x2x2",
                           "2x2x2:7,6,5,4,3,2,1,0"})
    layouts.push_back(*ir::parse_layout(text));
  std::ranges::stable_sort(layouts, {}, ranks_of);
  return layouts;
}

std::vector<Rank> roots_to_prove(Collective collective, std::int32_t ranks) {
  if (!rooted(collective)) return {0};
  if (ranks > kEveryRootUpTo) return {0, 1, ranks / 2, ranks - 1};
  std::vector<Rank> roots;
  for (Rank root = 0; root < ranks; ++root) roots.push_back(root);
  return roots;
}

void add_requests(Claim& claim, std::int32_t ranks, const Layout& layout) {
  for (const bool in_place : {false, true})
    for (const Rank root : roots_to_prove(claim.collective, ranks)) {
      Request request{claim.collective, ranks, root, in_place, layout};
      if (claim.algorithm->supports(request)) claim.requests.push_back(std::move(request));
    }
}

/// What one proof showed.
struct Shown {
  std::uint64_t steps = 0;
  std::uint32_t rounds = 0;
  Proved::Compressed compressed;
  std::optional<Proved::Compressed> between_hosts;
  double seconds = 0;
  std::optional<Error> error;
};

Error at_request(const Algorithm& algorithm, const Request& request, const Error& error) {
  const std::string layout = print(request.layout);
  return make_error(error.code, "{} {}, {} ranks{}{}, root {}{}: {}", algorithm.name,
                    name_of(request.collective), request.ranks, layout.empty() ? "" : " as ",
                    layout, request.root, request.in_place ? ", in place" : "", error.what);
}

Shown prove_one(const Algorithm& algorithm, const Request& request) {
  const auto started = Clock::now();
  Shown shown;
  const auto verified = [&]() -> Status {
    TUTTI_ASSIGN(const ir::Schedule schedule, algorithm.generate(request));
    TUTTI_ASSIGN(const ir::Proof proof, ir::verify(schedule));
    shown.steps = proof.steps;
    shown.rounds = proof.rounds;
    const bool has_formats = !schedule.formats.empty();
    const auto prove_compressed = [&](ir::CompressedMessages messages) {
      return has_formats ? Result<ir::Proof>(proof) : ir::verify(ir::compress(schedule, messages));
    };
    TUTTI_ASSIGN(const ir::Proof all, prove_compressed(ir::CompressedMessages::kAll));
    shown.compressed = {all.lossy_steps, all.same_bits.value_or(true)};
    if (request.layout.empty() || has_formats) return ok_status();
    TUTTI_ASSIGN(const ir::Proof some, prove_compressed(ir::CompressedMessages::kBetweenHosts));
    shown.between_hosts = {some.lossy_steps, some.same_bits.value_or(true)};
    return ok_status();
  }();
  if (!verified) shown.error = at_request(algorithm, request, verified.error());
  shown.seconds = std::chrono::duration<double>(Clock::now() - started).count();
  return shown;
}

/// An exception would end the program where a thread meets it.
Shown prove_within_memory(const Algorithm& algorithm, const Request& request) {
  try {
    return prove_one(algorithm, request);
  } catch (const std::bad_alloc&) {
    Shown shown;
    shown.error = at_request(
        algorithm, request,
        make_error(Code::kUnavailable, "there is not enough memory to prove it: take fewer ranks"));
    return shown;
  }
}

/// Hands the requests of all claims to threads, in order.
class Crew {
 public:
  explicit Crew(std::span<const Claim> claims) {
    for (const Claim& claim : claims)
      for (const Request& request : claim.requests) tasks_.push_back({claim.algorithm, &request});
    shown_.resize(tasks_.size());
    first_wrong_ = tasks_.size();
  }

  void run(unsigned threads, const OnProgress& on_progress) {
    std::vector<std::jthread> crew;
    working_ = threads;
    for (unsigned i = 0; i < threads; ++i) crew.emplace_back([this] { work(); });
    std::unique_lock lock(mutex_);
    while (!ended_.wait_for(lock, kBetweenReports, [this] { return working_ == 0; })) {
      lock.unlock();
      on_progress(done_, tasks_.size());
      lock.lock();
    }
  }

  /// In the order of the claims' requests. Complete up to the first that is wrong.
  [[nodiscard]] const std::vector<Shown>& shown() const { return shown_; }

 private:
  static constexpr auto kBetweenReports = std::chrono::milliseconds(100);

  struct Task {
    const Algorithm* algorithm;
    const Request* request;
  };

  void work() {
    for (std::size_t i = next_++; i < first_wrong_; i = next_++) {
      shown_[i] = prove_within_memory(*tasks_[i].algorithm, *tasks_[i].request);
      ++done_;
      if (shown_[i].error) stop_after(i);
    }
    const std::lock_guard lock(mutex_);
    --working_;
    ended_.notify_one();
  }

  /// What comes before is still proved: the first wrong one is the same with any number of threads.
  void stop_after(std::size_t wrong) {
    std::size_t first = first_wrong_;
    while (wrong < first && !first_wrong_.compare_exchange_weak(first, wrong)) {
    }
  }

  std::vector<Task> tasks_;
  std::vector<Shown> shown_;
  std::atomic<std::size_t> next_{0}, done_{0}, first_wrong_{0};
  std::mutex mutex_;
  std::condition_variable ended_;
  unsigned working_ = 0;  // guarded by mutex_
};

void add_to(Proved& row, const Request& request, const Shown& shown) {
  if (row.schedules++ == 0) row.first_ranks = request.ranks;
  row.last_ranks = request.ranks;
  row.steps += shown.steps;
  row.rounds = std::max(row.rounds, shown.rounds);
  row.seconds += shown.seconds;
  const auto add = [](Proved::Compressed& sum, const Proved::Compressed& one) {
    sum.roundings = std::max(sum.roundings, one.roundings);
    sum.same_bits = sum.same_bits && one.same_bits;
  };
  add(row.compressed, shown.compressed);
  if (shown.between_hosts) {
    if (!row.between_hosts) row.between_hosts.emplace();
    add(*row.between_hosts, *shown.between_hosts);
  }
  if (rooted(request.collective) && request.ranks > kEveryRootUpTo) row.every_root = false;
  if (request.layout.empty()) return;
  std::string layout = print(request.layout);
  if (row.layouts.empty() || row.layouts.back() != layout) row.layouts.push_back(std::move(layout));
}

}  // namespace

Claim claim_for_ranks(const Algorithm& algorithm, Collective collective, RankRange range) {
  Claim claim{&algorithm, collective, {}};
  if (needs_of(algorithm) == Needs::kNothing) {
    for (int ranks = range.first; ranks <= range.last; ++ranks) add_requests(claim, ranks, {});
    return claim;
  }
  for (const Layout& layout : sample_layouts()) {
    const std::int32_t ranks = ranks_of(layout);
    if (range.first <= ranks && ranks <= range.last) add_requests(claim, ranks, layout);
  }
  return claim;
}

Claim claim_for_layout(const Algorithm& algorithm, Collective collective, const Layout& layout) {
  Claim claim{&algorithm, collective, {}};
  add_requests(claim, ranks_of(layout), layout);
  return claim;
}

Result<std::vector<Proved>> prove(std::span<const Claim> claims, unsigned threads,
                                  const OnProgress& on_progress) {
  Crew crew(claims);
  crew.run(threads, on_progress);
  std::vector<Proved> rows;
  auto shown = crew.shown().begin();
  for (const Claim& claim : claims) {
    if (claim.requests.empty()) continue;
    Proved& row = rows.emplace_back();
    row.collective = claim.collective;
    row.algorithm = claim.algorithm->name;
    for (const Request& request : claim.requests) {
      if (shown->error) return *shown->error;
      add_to(row, request, *shown++);
    }
  }
  return rows;
}

}  // namespace tutti::tools
