// One system call or allocation of one rank fails: in init, or in operations. Then every rank
// ends with a right result or an error in time, no process crashes, and the others blame that rank.
//
// INJECTED_FAULTS: how many random ones; or the name of a call or "all": every one up to the 40th.
// INJECTED_SEED chooses, INJECTED_SHOW prints what the ranks say.
#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tests/faults/faults.hpp"

namespace tutti::testing {
namespace {

constexpr int kRanks = 3;
constexpr int kAtOnce = 8;
constexpr int kMostNumber = 40;
constexpr int kLiveness = 3;
// A rank that hears nothing waits for the liveness limit, and then some.
const Seconds kPatience(2 * kLiveness + 14);

struct Kind {
  const char* call;
  int error;
};
constexpr Kind kKinds[] = {{"socket", EMFILE},      {"bind", EADDRINUSE},
                           {"listen", EADDRINUSE},  {"accept4", EMFILE},
                           {"connect", ECONNRESET}, {"getsockname", EBADF},
                           {"getsockopt", EBADF},   {"setsockopt", EINVAL},
                           {"send", EIO},           {"recv", EIO},
                           {"sendmsg", EIO},        {"recvmsg", EIO},
                           {"readv", EIO},          {"writev", EIO},
                           {"poll", EINTR},         {"epoll_create1", EMFILE},
                           {"epoll_ctl", ENOSPC},   {"epoll_wait", EINTR},
                           {"eventfd", EMFILE},     {"memfd_create", EMFILE},
                           {"ftruncate", EIO},      {"fallocate", ENOSPC},
                           {"mmap", ENOMEM},        {"fallocate", EINTR},
                           {"open", EMFILE},        {"process_vm_readv", EPERM},
                           {"malloc", ENOMEM},      {"pthread_create", EAGAIN}};

struct Fault {
  Kind kind{};
  int number = 0;  ///< which call; negative: it and all later ones
  bool in_init = false;
  int victim = 0;
};

std::ostream& operator<<(std::ostream& out, const Fault& fault) {
  return out << fault.kind.call << " number " << fault.number << (fault.in_init ? " in init" : "")
             << " of rank " << fault.victim;
}

std::vector<Fault> all_faults() {
  std::vector<Fault> faults;
  for (const Kind& kind : kKinds) {
    for (int number = 1; number <= kMostNumber; ++number)
      for (const bool in_init : {true, false})
        faults.push_back({kind, number, in_init, number % kRanks});
    if (std::string_view(kind.call) == "malloc") continue;
    for (const bool in_init : {true, false}) faults.push_back({kind, -1, in_init, 1});
  }
  // libsodium asks once whether it may call this, and else reads /dev/urandom. Then no kernel lets
  // it fail, and libsodium ends the process.
  faults.push_back({{"getrandom", EPERM}, -1, true, 1});
  return faults;
}

std::vector<Fault> chosen_faults() {
  std::vector<Fault> faults = all_faults();
  const char* const given_faults = std::getenv("INJECTED_FAULTS");
  const std::string wanted = given_faults != nullptr ? given_faults : "60";
  if (wanted == "all") return faults;
  if (std::isdigit(static_cast<unsigned char>(wanted.front())) == 0) {
    std::erase_if(faults, [&](const Fault& fault) { return fault.kind.call != wanted; });
    EXPECT_FALSE(faults.empty()) << "INJECTED_FAULTS: no such call: " << wanted;
    return faults;
  }
  const char* const given = std::getenv("INJECTED_SEED");
  const unsigned seed =
      given != nullptr ? static_cast<unsigned>(std::atoi(given)) : std::random_device{}();
  std::cout << "INJECTED_SEED=" << seed << "\n";
  std::shuffle(faults.begin(), faults.end(), std::mt19937(seed));
  faults.resize(std::min(std::stoul(wanted), faults.size()));
  return faults;
}

/// A job that is under way.
struct Injected {
  Fault fault;
  std::unique_ptr<Job> job;
};

class InjectedFaults : public ::testing::TestWithParam<const char*> {
 protected:
  static Injected begin(const Fault& fault) {
    const bool tcp = std::string(GetParam()) == "tcp";
    Injected injected{
        fault, std::make_unique<Job>(std::vector<Place>(kRanks),
                                     Variables{{"LD_PRELOAD", FAULT_INJECTOR},
                                               {"TUTTI_SHM", tcp ? "0" : "1"},
                                               {"TUTTI_DEBUG", "NONE"},
                                               {"TUTTI_INIT_TIMEOUT", "6"},
                                               {"TUTTI_LIVENESS", std::to_string(kLiveness)}})};
    Job& job = *injected.job;
    const std::string id = job.fresh_id();
    if (fault.in_init) arm(injected);
    job.tell_init(job.all(), id);
    return injected;
  }

  static void arm(const Injected& injected) {
    const Fault& fault = injected.fault;
    const Answer armed = (*injected.job)[fault.victim].ask(
        std::string("inject ") + fault.kind.call + " " + std::to_string(fault.number) + " " +
        std::to_string(fault.kind.error));
    ASSERT_TRUE(armed.ok()) << armed;
  }

  /// Who may be blamed. An error of a connection may be taken for the doing of its other end.
  static Ranks culprits(const Fault& fault) {
    const std::string call = fault.kind.call;
    for (const char* const of_connections :
         {"send", "recv", "sendmsg", "recvmsg", "readv", "writev"})
      if (call == of_connections) return {0, 1, 2};
    return {fault.victim};
  }

  /// Whether all succeeded. What failed is an error of the library, and blames the victim.
  static bool expect_right(const Injected& injected, const std::string& command) {
    bool all_good = true;
    Job& job = *injected.job;
    for (const int rank : job.all()) {
      const Answer answer = job[rank].hear(command, kPatience);
      EXPECT_NE(answer.result, Answer::kNone) << "rank " << rank << " hangs or crashed";
      EXPECT_NE(answer.result, Answer::kWrongData) << "rank " << rank << ": " << answer;
      all_good &= answer.ok();
      if (answer.ok() || rank == injected.fault.victim || answer.result == Answer::kNone) continue;
      if (std::getenv("INJECTED_SHOW") != nullptr)
        std::cout << injected.fault << ": rank " << rank << ": " << answer << "\n";
      EXPECT_THAT(answer.text, names_one_of(culprits(injected.fault))) << "rank " << rank;
    }
    return all_good;
  }

  static void end(Injected& injected) {
    SCOPED_TRACE(::testing::Message() << injected.fault);
    if (!expect_right(injected, "init")) return;
    if (!injected.fault.in_init) arm(injected);
    Job& job = *injected.job;
    for (const std::string command : {"reduce 10", "reduce 300000", "collect 5000"}) {
      job.tell(job.all(), command);
      if (!expect_right(injected, command.substr(0, command.find(' ')))) return;
    }
  }
};

TEST_P(InjectedFaults, EndRightOrInAnErrorThatNamesTheRank) {
  std::deque<Injected> under_way;
  for (const Fault& fault : chosen_faults()) {
    under_way.push_back(begin(fault));
    if (under_way.size() < kAtOnce) continue;
    end(under_way.front());
    under_way.pop_front();
  }
  for (Injected& injected : under_way) end(injected);
}

INSTANTIATE_TEST_SUITE_P(Over, InjectedFaults, ::testing::Values("shm", "tcp"), transport_name);

}  // namespace
}  // namespace tutti::testing
