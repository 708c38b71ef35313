// How a mock plugin behaves: MOCK_PLUGIN="seed=7,null=isend,fail=test:3", read as it is loaded.
//
//   seed=N         refuses, waits and goes in small steps at random, within the contract; 0: never
//   unsupported=P  percent of the reductions that it says it lacks, by the seed
//   errors=P       percent of the collectives that fail before they begin, by the seed
//   null=F         the function F is null
//   fail=F:K       the K-th call of F fails; fail=F:K:O with outcome O
//   init=crash     or hang
//   connect=hang   of a group
//   hollow=K       the K-th collective of a group fails, though only the log says so
//   late=1         the table has no function but init, which fills it in, and changes the name
//   devices=N      their number
//   props=W        absurd properties: noname, speed, receives, devices, bytes
//   shy=1          posts no receive before the peer has sent something, as some old plugins
//   cut=K          its connections end in the middle of the K-th collective of a group
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>

#include "src/plugin/abi.hpp"

namespace tutti::plugin::mock {

/// Prints a sentence and aborts: the caller has broken a rule of the interface.
[[noreturn]] void misuse(const std::string& what);

/// Value; read-only once it is loaded.
class Options {
 public:
  static const Options& get();

  [[nodiscard]] std::uint64_t number(const std::string& key, std::uint64_t otherwise) const;
  /// Empty if it is not there.
  [[nodiscard]] std::string text(const std::string& key) const;
  [[nodiscard]] bool says(const std::string& key, const std::string& value) const {
    return text(key) == value;
  }

 private:
  Options();
  std::map<std::string, std::string> values_;
};

/// Of one comm that may be under way; exports.cpp sets it.
int& most_requests();

/// What the host gave to init, null before.
std::atomic<abi::Logger>& host_logger();
/// Writes a warning to it.
void warn(const std::string& text);

/// Counts the calls of a function. The outcome with which this one has to fail, else success.
abi::Outcome planned_failure(const std::string& function);

/// Decides at random, always the same from one seed.
class Dice {
 public:
  explicit Dice(std::uint64_t stream)
      : state_(Options::get().number("seed", 0) * 0x9e3779b97f4a7c15 + stream),
        hostile_(Options::get().number("seed", 0) != 0) {}

  /// Below `end`.
  std::uint64_t roll(std::uint64_t end) {
    state_ = state_ * 6364136223846793005 + 1442695040888963407;
    return (state_ >> 33) % end;
  }
  /// One time in `n`; never if the mock is tame.
  bool one_in(std::uint64_t n) { return hostile_ && roll(n) == 0; }
  [[nodiscard]] bool hostile() const { return hostile_; }

 private:
  std::uint64_t state_;
  const bool hostile_;
};

}  // namespace tutti::plugin::mock
