// Ranks as processes that a test directs, harms and examines from outside.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "nccl.h"
#include "src/base/clock.hpp"
#include "src/base/fd.hpp"
#include "src/base/sanitized.hpp"

namespace tutti::testing {

using Seconds = std::chrono::duration<double>;
using Variables = std::map<std::string, std::string>;

/// Upper limits on time are this much wider in a sanitized build.
inline constexpr double kSlack = kSanitized ? 5 : 1;

/// What a rank said about one command. See fault_rank.cpp.
struct Answer {
  static constexpr int kWrongData = -1;
  static constexpr int kNone = -2;  ///< none came in time, or the process ended

  int result = kNone;
  double milliseconds = 0;  ///< that the call took
  std::string text;
  TimePoint when;  ///< it was heard

  [[nodiscard]] bool ok() const { return result == ncclSuccess; }
};

/// Prints an answer in the messages of failed tests.
std::ostream& operator<<(std::ostream& out, const Answer& answer);

/// Where a process runs, if not where the test does, which takes root.
struct Place {
  std::size_t private_shm_bytes = 0;  ///< of a /dev/shm of its own
  std::string host;                   ///< the name of a network namespace
};

/// Resource: a process of fault_rank, killed with this object.
class RankProcess {
 public:
  explicit RankProcess(const Variables& variables, const Place& place = {});
  ~RankProcess();
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  void tell(const std::string& command);
  /// The next answer, which must be to `command`; a test failure when it does not come in time.
  Answer hear(const std::string& command, Seconds patience = Seconds(10 * kSlack));
  Answer ask(const std::string& command, Seconds patience = Seconds(10 * kSlack));
  /// Whether the rank says this word alone in time.
  bool says(const std::string& word, Seconds patience = Seconds(10 * kSlack));

  void signal(int number) const;
  /// Waits for the end: the exit code, or 1000 and the signal; 2000 if it does not end in time.
  int wait(Seconds patience = Seconds(5 * kSlack));
  /// Ends by command and waits.
  int exit();

  [[nodiscard]] pid_t pid() const { return pid_; }
  /// The inodes of its sockets.
  [[nodiscard]] std::set<std::string> sockets() const;
  /// Its connected stream sockets, as descriptors of this process; empty where the kernel does not
  /// allow that.
  [[nodiscard]] std::vector<Fd> borrow_connections() const;
  /// The port on which it listens for ranks of `ip` (as in /proc/net/tcp); 0 if on none.
  [[nodiscard]] std::vector<int> listening_ports() const;

 private:
  bool read_line(std::string& line, Deadline deadline);
  std::string how_it_fares();

  pid_t pid_ = -1;
  Fd to_, from_;
  std::string unread_;
  bool ended_ = false;
  int exit_code_ = 0;
};

using Ranks = std::vector<int>;

/// n ranks, not joined yet.
class Job {
 public:
  Job(const std::vector<Place>& places, const Variables& variables);

  RankProcess& operator[](int rank) { return *ranks_[rank]; }
  [[nodiscard]] int size() const { return static_cast<int>(ranks_.size()); }
  [[nodiscard]] Ranks all() const;
  [[nodiscard]] Ranks all_but(const Ranks& some) const;

  /// Tells all of them, then hears all: element i is the answer of ranks[i].
  std::vector<Answer> ask(const Ranks& ranks, const std::string& command,
                          Seconds patience = Seconds(10 * kSlack));
  std::vector<Answer> hear(const Ranks& ranks, const std::string& command,
                           Seconds patience = Seconds(10 * kSlack));
  void tell(const Ranks& ranks, const std::string& command);

  std::string fresh_id(int rank = 0);
  /// Tells `ranks` to join one communicator of all.
  void tell_init(const Ranks& ranks, const std::string& id);
  /// All join. Element i is rank i's answer.
  std::vector<Answer> init();

 private:
  std::vector<std::unique_ptr<RankProcess>> ranks_;
};

}  // namespace tutti::testing
