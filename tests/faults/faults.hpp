// What must hold after every fault.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include "tests/faults/job.hpp"

namespace tutti::testing {

/// A window of time after a fault.
struct Window {
  Seconds from{0}, to{2 * kSlack};
};

/// Ints of an all-reduce that takes so long that a rank which loops over it is nearly always
/// inside.
inline constexpr int kLarge = 4 << 20;

/// Ranks over "shm", over "tcp", and over shm with buffers that peers map ("mapped").
class FaultsOver : public ::testing::TestWithParam<const char*> {
 protected:
  /// n ranks that have formed one communicator, after one of the kind was made, used and ended: so
  /// what the process opens once is not taken for a leak.
  void form(int ranks, Variables variables = {}) {
    form(std::vector<Place>(ranks), std::move(variables));
  }
  void form(const std::vector<Place>& places, Variables variables);
  /// n ranks that know nothing of each other yet.
  void start(int ranks, Variables variables = {}, const Place& place = {}) {
    start(std::vector<Place>(ranks, place), std::move(variables));
  }
  void start(const std::vector<Place>& places, Variables variables);
  /// All ranks are inside large operations when this returns: all-reduces, or those of `command`.
  void enter_operations(const Ranks& ranks, const std::string& command = "loop");
  void kill(int rank);

  /// Each of `survivors` ends what it does with ncclRemoteError, in time, and names one of
  /// `culprits`; what they call afterwards fails too.
  void expect_remote_error(const Ranks& survivors, const Ranks& culprits, TimePoint fault,
                           const Window& window = {}, const std::string& command = "loop");
  /// Later calls on the communicator fail and blame one of `culprits`.
  void expect_ended(const Ranks& survivors, const Ranks& culprits);
  /// The survivors shrink, compute right results, and end the new communicator.
  void expect_shrunk_works(const Ranks& survivors, const Ranks& excluded);
  /// Descriptors and threads are as before the communicator was made.
  void expect_no_leak(const Ranks& survivors);
  /// All of the above, then ends the ranks and looks at what remains of them.
  void expect_survival(const Ranks& culprits, TimePoint fault, const Window& window = {});
  /// Ends the ranks that live; no process, socket or file of them remains.
  void expect_nothing_left();

  void SetUp() override;
  void remember_sockets();
  void settle(const Ranks& ranks);
  [[nodiscard]] Variables variables_for(Variables variables) const;

  std::unique_ptr<Job> job_;

 private:
  std::vector<std::pair<int, int>> before_;  ///< descriptors and threads of each rank
  std::set<std::string> sockets_;
  std::set<std::string> files_before_;
};

inline std::string transport_name(const ::testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  name[0] = static_cast<char>(name[0] - 'a' + 'A');
  return name;
}

/// Looks at a condition that nobody signals, until it holds or the deadline has passed.
template <class Holds>
bool eventually(Holds&& holds, Seconds patience) {
  const Deadline deadline = Deadline::after(std::chrono::duration_cast<Nanos>(patience));
  while (!holds()) {
    if (deadline.passed()) return false;
    ::poll(nullptr, 0, 20);
  }
  return true;
}

/// Says "rank 2" or "never came: 2" of one of them.
::testing::Matcher<std::string> names_one_of(const Ranks& culprits);

}  // namespace tutti::testing
