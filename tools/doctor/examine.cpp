#include "tools/doctor/examine.hpp"

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "src/base/printable.hpp"
#include "src/base/result.hpp"
#include "tools/doctor/facts_json.hpp"
#include "tools/doctor/line.hpp"
#include "tools/doctor/rounds.hpp"
#include "tools/program/cli.hpp"

namespace tutti::doctor {
namespace {

using std::chrono::seconds;

constexpr std::string_view kFacts = "facts";
constexpr std::string_view kClock = "clock";
constexpr std::string_view kLead = "lead ";      // and the facts of the other host
constexpr std::string_view kFollow = "follow ";  // likewise
constexpr std::string_view kEnd = "end";
constexpr char kCannot = '!';  // begins an answer: why there are no facts

constexpr Nanos kFactsTime = seconds(10);  // opening devices takes a second or two
constexpr Nanos kPairTime = seconds(60);   // more than Station::check takes
constexpr Nanos kEndTime = seconds(5);
constexpr int kClockReadings = 5;

std::int64_t wall_clock_ns() {
  return std::chrono::duration_cast<Nanos>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// Calls body(0), ..., body(count - 1), each in a thread of its own, and waits for all.
void in_parallel(std::size_t count, const std::function<void(std::size_t)>& body) {
  std::vector<std::thread> threads;
  threads.reserve(count);
  for (std::size_t i = 0; i < count; ++i) threads.emplace_back(body, i);
  for (std::thread& thread : threads) thread.join();
}

/// A rank as rank 0 knows it.
struct Member {
  Rank rank = 0;
  std::optional<Line> line{};  ///< none: it is rank 0, or did not come
  std::optional<HostFacts> facts{};
  std::string silent{};  ///< why it is not heard any more; "": it is
};

class Examination {
 public:
  Examination(const std::shared_ptr<Service>& service, const MeetingPoint& point, Station& station,
              const ExamineOptions& options)
      : service_(service),
        point_(point),
        station_(station),
        options_(options),
        members_(static_cast<std::size_t>(point.size)),
        progress_(true) {}

  JobFacts run() {
    gather();
    choose_hosts();
    measure_pairs();
    in_parallel(members_.size(), [this](std::size_t i) { let_go(members_[i]); });
    progress_.clear();
    return take_facts();
  }

 private:
  void gather() {
    progress_.show(0, members_.size(), "ranks that came");
    in_parallel(members_.size(), [this](std::size_t i) {
      members_[i].rank = static_cast<Rank>(i);
      if (i == 0)
        members_[i].facts = station_.facts();
      else
        welcome(members_[i]);
    });
  }

  void welcome(Member& member) const {
    auto line = Line::open(service_, point_, member.rank, options_.join,
                           Deadline::after(options_.patience));
    if (!line) {
      member.silent = why_silent(line.error(), "it did not come", options_.patience);
      return;
    }
    member.line.emplace(*std::move(line));
    const auto answer = ask(member, kFacts, kFactsTime);
    if (!answer) return;
    if (answer->starts_with(kCannot))
      return fall_silent(member, without_controls(answer->substr(1)));
    auto facts = decode_host(*answer);
    if (!facts)
      return fall_silent(member, "what it tells of itself is wrong: " + facts.error().what);
    facts->rank = member.rank;
    member.facts = *std::move(facts);
    read_clock(member);
  }

  /// In errors of a line, the other rank is always called rank 1.
  static std::string why_silent(const Error& error, std::string_view what, Nanos time) {
    if (error.code == Code::kTimeout)
      return fmt::format("{} within {:.0f} s", what, std::chrono::duration<double>(time).count());
    if (error.code == Code::kPeerFailed)
      return "its process ended, or nothing was heard of its host for as long as TUTTI_LIVENESS "
             "says";
    return error.what;
  }

  static void fall_silent(Member& member, std::string why) {
    member.silent = std::move(why);
    member.line.reset();
  }

  /// Nothing, and the member is silent, if no answer comes.
  static std::optional<std::string> ask(Member& member, std::string_view question, Nanos time) {
    auto answer = member.line->ask(question, Deadline::after(time));
    if (answer) return *std::move(answer);
    fall_silent(member, why_silent(answer.error(), "no answer came", time));
    return std::nullopt;
  }

  /// The reading with the shortest round trip counts: half of it bounds the error.
  static void read_clock(Member& member) {
    std::optional<double> best;
    for (int i = 0; i < kClockReadings; ++i) {
      const std::int64_t before = wall_clock_ns();
      const auto answer = ask(member, kClock, kFactsTime);
      const std::int64_t after = wall_clock_ns();
      if (!answer) return;
      std::int64_t there = 0;
      std::from_chars(answer->data(), answer->data() + answer->size(), there);
      const double trip = static_cast<double>(after - before) / 1e9;
      if (best && trip >= *best) continue;
      best = trip;
      member.facts->clock_round_trip_s = trip;
      member.facts->clock_offset_s =
          (static_cast<double>(there) - static_cast<double>(before)) / 1e9 - trip / 2;
    }
  }

  /// The lowest rank of each host stays. Names become distinct.
  void choose_hosts() {
    std::map<std::string, int> identities;
    std::map<std::string, int> names;
    for (Member& member : members_) {
      if (!member.facts) continue;
      if (identities[member.facts->identity]++ > 0) {
        let_go(member);
        member.facts.reset();
        continue;
      }
      const auto rank = static_cast<std::size_t>(member.rank);
      if (rank < options_.names.size() && options_.names[rank] != "localhost")
        member.facts->name = options_.names[rank];
      ++names[member.facts->name];
      hosts_.push_back(rank);
    }
    for (const std::size_t host : hosts_) {
      HostFacts& facts = *members_[host].facts;
      if (names[facts.name] > 1) facts.name += fmt::format(" (rank {})", facts.rank);
    }
  }

  void measure_pairs() {
    const bool all = options_.all_pairs || hosts_.size() <= kMostHostsForAllPairs;
    const auto rounds =
        all ? all_pairs(hosts_.size()) : sampled_pairs(hosts_.size(), std::random_device()());
    job_.possible_pairs = hosts_.size() * (hosts_.size() - 1) / 2;
    job_.sampled = !all;
    for (const Round& round : rounds) pairs_ += round.size();
    for (const Round& round : rounds) measure(round);
  }

  void measure(const Round& round) {
    progress_.show(job_.pairs.size(), pairs_, "pairs of hosts");
    const std::size_t first = job_.pairs.size();
    for (const Pair& pair : round)
      if (is_heard(pair.first) && is_heard(pair.second)) job_.pairs.emplace_back().pair = pair;
    in_parallel(2 * (job_.pairs.size() - first), [&](std::size_t i) {
      PairFacts& pair = job_.pairs[first + i / 2];
      const bool leads = i % 2 == 0;
      const std::size_t own = leads ? pair.pair.first : pair.pair.second;
      const std::size_t other = leads ? pair.pair.second : pair.pair.first;
      (leads ? pair.of_first : pair.of_second) =
          half(members_[hosts_[own]], members_[hosts_[other]], leads);
    });
  }

  [[nodiscard]] bool is_heard(std::size_t host) const {
    return members_[hosts_[host]].silent.empty();
  }

  std::optional<PairReport> half(Member& member, const Member& other, bool leads) const {
    if (member.rank == 0) return station_.check(*other.facts, leads);
    const std::string question = fmt::format("{}{}", leads ? kLead : kFollow, encode(*other.facts));
    const auto answer = ask(member, question, kPairTime);
    if (!answer) return std::nullopt;
    auto report = decode_pair(*answer);
    if (report) return *std::move(report);
    fall_silent(member, "what it tells of a pair is wrong: " + report.error().what);
    return std::nullopt;
  }

  static void let_go(Member& member) {
    if (!member.line) return;
    (void)member.line->ask(kEnd, Deadline::after(kEndTime));
    member.line.reset();
  }

  JobFacts take_facts() {
    for (const std::size_t host : hosts_) job_.hosts.push_back(*members_[host].facts);
    for (const Member& member : members_) {
      if (member.silent.empty()) continue;
      const auto rank = static_cast<std::size_t>(member.rank);
      const std::string name = member.facts                   ? member.facts->name
                               : rank < options_.names.size() ? options_.names[rank]
                                                              : fmt::format("rank {}", rank);
      job_.silent.push_back({member.rank, name, member.silent});
    }
    return std::move(job_);
  }

  const std::shared_ptr<Service>& service_;
  const MeetingPoint& point_;
  Station& station_;
  const ExamineOptions& options_;
  std::vector<Member> members_;
  std::vector<std::size_t> hosts_;  // the rank that answers for each host
  std::size_t pairs_ = 0;
  JobFacts job_;
  tools::ProgressBar progress_;
};

/// Answers one question; nothing: that was the last.
std::optional<std::string> answer_to(std::string_view question, Station& station) {
  if (question == kFacts) return encode(station.facts());
  if (question == kClock) return std::to_string(wall_clock_ns());
  const bool leads = question.starts_with(kLead);
  if (!leads && !question.starts_with(kFollow)) return std::nullopt;
  const auto peer = decode_host(question.substr(leads ? kLead.size() : kFollow.size()));
  if (peer) return encode(station.check(*peer, leads));
  PairReport report;
  report.reach = {Reach::Outcome::kFailed, peer.error().what};
  report.tcp.error = peer.error().what;
  return encode(report);
}

}  // namespace

JobFacts examine(const std::shared_ptr<Service>& service, const MeetingPoint& point,
                 Station& station, const ExamineOptions& options) {
  return Examination(service, point, station, options).run();
}

Status be_examined(const std::shared_ptr<Service>& service, const MeetingPoint& point,
                   Result<std::unique_ptr<Station>> station, const ExamineOptions& options) {
  if (station) (*station)->facts().rank = point.rank;
  TUTTI_ASSIGN(Line line, Line::open(service, point, point.rank, options.join,
                                     Deadline::after(options.patience)));
  const Status served = line.serve([&](std::string_view question) -> std::optional<std::string> {
    return station ? answer_to(question, **station) : kCannot + station.error().what;
  });
  return station ? served : station.error();
}

}  // namespace tutti::doctor
