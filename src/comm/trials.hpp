// Which way of running calls is the fastest here, found out by the first calls.
//
// Words: a class of calls may be run in several ways that give the same results. A *course* is the
// calls of a class that find out: they take turns at its ways, a few calls in a row each, of which
// the first ones are no *tries*, since memory and caches get used to it. What its tries took each
// rank tells the others by an all-gather before the next call, whose owner runs it, and so all come
// to the same *verdict* from the same numbers.
//
// All ranks make the same calls in the same order, so all know without a word which way a call
// runs, and when a course is over.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/comm/call.hpp"
#include "src/cost/tuning.hpp"
#include "src/cost/tuning_file.hpp"
#include "src/exec/team.hpp"
#include "tutti/error.hpp"

namespace tutti {

inline constexpr std::size_t kMostWays = 3, kMostTries = 16;

/// What a rank tells of a course. Value, with a fixed layout.
struct TrialTimes {
  std::uint64_t of = 0;                ///< tells what was tried
  Try tries[kMostWays][kMostTries]{};  ///< of a way, in order
};
static_assert(sizeof(TrialTimes) == sizeof(std::uint64_t) * (1 + 2 * kMostWays * kMostTries));

/// One per communicator and rank; used by its thread unless said otherwise.
class Trials {
 public:
  /// `measures` false: every call runs the first way it may, whatever is known. `known`: as all
  /// ranks agreed. `store` learns of verdicts and outlives this.
  Trials(exec::Team& team, bool measures, const std::vector<Verdict>& known, TuningStore& store);

  struct Turn {
    std::size_t way = 0;    ///< of those asked about
    bool on_trial = false;  ///< begin() and end() this call
    bool measured = false;  ///< a verdict says so
  };
  /// What the next call, of class `of`, runs; not while due(). `ways`: those that it may, the same
  /// on all ranks, the one without measuring first.
  Turn turn(const CallClass& of, std::span<const Way> ways);
  /// What is known of a class. Any thread may ask.
  [[nodiscard]] std::optional<Way> verdict(const CallClass& of) const;
  [[nodiscard]] bool measures() const { return measures_; }

  /// Around a call that is on trial. `counts` false: it ran in none of the ways.
  void begin();
  void end(bool counts);

  /// A course is over and waits for its verdict: gather() is to be run, then decide().
  [[nodiscard]] bool due() const { return due_.has_value(); }
  /// The all-gather of what the course took; its buffers stay until decide(). No program makes a
  /// call of the same signature.
  Call gather();
  [[nodiscard]] static CallSignature signature_of_gather(const Call& gather);
  /// By what all ranks told; an error when one tells of another course.
  Status decide();

 private:
  struct Course {
    std::vector<Way> ways;
    std::uint32_t calls = 0;  ///< so far
    TrialTimes times;
  };
  struct Place;
  static Place place_of(const Course& course);
  struct Figures;
  static std::string text_of(const Figures& figures, std::span<const Way> ways);
  [[nodiscard]] Figures figures_of(const Course& course) const;
  void conclude(const Course& course, const Figures& figures);

  exec::Team& team_;
  const bool measures_;
  TuningStore& store_;
  [[nodiscard]] std::optional<std::optional<Way>> decided(const CallClass& of) const;
  void decide_for(const CallClass& of, std::optional<Way> way);
  mutable std::mutex mutex_;                          ///< of verdicts_
  std::map<CallClass, std::optional<Way>> verdicts_;  ///< none: the first way stays
  std::map<CallClass, Course> courses_;               ///< under way
  std::map<CallClass, Course>::iterator current_;     ///< the course of the call on trial
  std::optional<CallClass> due_;
  std::vector<TrialTimes> told_;  ///< by rank
};

}  // namespace tutti
