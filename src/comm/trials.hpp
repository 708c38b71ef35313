// The first calls of a class find out which way of running it is the fastest here.
//
// Words: calls of one class may run in several *ways* that give the same results. A *course* is the
// calls that find out: they take turns at the ways, a few calls in a row for each. The first calls
// of a row are no *tries*, because memory and caches have to warm up. After the course the ranks
// exchange the times of their tries, by an all-gather before the next call (ActiveCall runs it). So
// all come to the same *verdict* from the same numbers.
//
// All ranks make the same calls in the same order. So each knows which way a call runs, and when a
// course is over, without being told.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/comm/call.hpp"
#include "src/cost/measured_store.hpp"
#include "src/cost/tuning.hpp"
#include "src/exec/team.hpp"
#include "tutti/error.hpp"

namespace tutti {

inline constexpr std::size_t kMostWays = 3, kMostTries = 20;

/// What a rank tells about a course. Value, with a fixed layout.
struct TrialTimes {
  std::uint64_t of = 0;                ///< a hash of what was tried
  Try tries[kMostWays][kMostTries]{};  ///< of a way, in order
};
static_assert(sizeof(TrialTimes) == sizeof(std::uint64_t) * (1 + 2 * kMostWays * kMostTries));

/// One per communicator and rank; used by its thread unless said otherwise.
class Trials {
 public:
  /// `measures` false: every call runs the first of its ways, whatever is known. `arrangement` and
  /// `known`: the same on all ranks. `store` gets the verdicts and outlives this.
  Trials(exec::Team& team, bool measures, const Arrangement& arrangement, MeasuredTable known,
         MeasuredStore& store)
      : team_(team),
        measures_(measures),
        arrangement_(arrangement),
        known_(std::move(known)),
        store_(store) {}

  struct Turn {
    std::size_t way = 0;    ///< of those asked about
    bool on_trial = false;  ///< begin() and end() this call
    bool measured = false;  ///< a verdict says so
  };
  /// How the next call, of class `of`, runs. Not while due(). `ways`: those that it may take, the
  /// same on all ranks; the first is the one that runs without measurements.
  Turn turn(const CallClass& of, std::span<const Way> ways);
  /// What is known of a class. Any thread may ask.
  [[nodiscard]] std::optional<Way> verdict(const CallClass& of) const;
  [[nodiscard]] bool measures() const { return measures_; }

  /// Before and after a call that is on trial. `counts` false: it ran in none of the ways.
  void begin();
  void end(bool counts);

  /// A course is over and waits for its verdict: run gather(), then call decide().
  [[nodiscard]] bool due() const { return due_.has_value(); }
  /// The all-gather of what the course took; its buffers stay until decide(). No program makes a
  /// call of the same signature.
  Call gather();
  [[nodiscard]] static CallSignature signature_of_gather(const Call& gather);
  /// From what all ranks told. An error when one tells of another course.
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
  const Arrangement arrangement_;
  const MeasuredTable known_;
  MeasuredStore& store_;
  [[nodiscard]] std::optional<std::optional<Way>> decided(const CallClass& of) const;
  void decide_for(const CallClass& of, std::optional<Way> way);
  mutable std::mutex mutex_;                          ///< of verdicts_
  std::map<CallClass, std::optional<Way>> verdicts_;  ///< beside known_; none: the first way stays
  std::map<CallClass, Course> courses_;               ///< under way
  std::map<CallClass, Course>::iterator current_;     ///< the course of the call on trial
  std::optional<CallClass> due_;
  std::vector<TrialTimes> told_;  ///< by rank
};

}  // namespace tutti
