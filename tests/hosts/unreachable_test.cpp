// Two hosts that lose each other. Run by tests/hosts/with_hosts.
#include <cstdlib>
#include <sstream>

#include "tests/faults/faults.hpp"

namespace tutti::testing {
namespace {

constexpr Seconds kLiveness(3);

class Unreachable : public FaultsOver {
 protected:
  void SetUp() override {
    FaultsOver::SetUp();
    const char* hosts = std::getenv("HOSTS");
    const char* links = std::getenv("LINKS");
    ASSERT_TRUE(hosts != nullptr && links != nullptr) << "to be run by tests/hosts/with_hosts";
    std::istringstream(hosts) >> hosts_[0] >> hosts_[1];
    std::istringstream(links) >> link_;
    set_link("up");
  }
  void TearDown() override { set_link("up"); }

  /// Ranks 0 and 1 on one host, 2 and 3 on the other.
  void form_on_both() {
    const Place here{.private_shm_bytes = 0, .host = hosts_[0]};
    const Place there{.private_shm_bytes = 0, .host = hosts_[1]};
    form({here, here, there, there}, {{"TUTTI_LIVENESS", std::to_string(kLiveness.count())}});
  }
  void set_link(const std::string& state) const {
    const std::string command = "ip -n " + hosts_[0] + " link set " + link_ + " " + state;
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
  }

  /// The limit counts from the last sign of life, which may be a quarter of it older than the
  /// fault.
  const Window window_{0.7 * kLiveness, 1.5 * kLiveness* kSlack};

 private:
  std::string hosts_[2], link_;
};

TEST_P(Unreachable, HostsThatLoseEachOtherEachGoOnAlone) {
  form_on_both();
  enter_operations(job_->all());
  const TimePoint fault = Clock::now();
  set_link("down");
  expect_remote_error({0, 1}, {2, 3}, fault, window_);
  expect_remote_error({2, 3}, {0, 1}, fault, window_);
  for (const auto& [side, other] : {std::pair{Ranks{0, 1}, Ranks{2, 3}}, {{2, 3}, {0, 1}}}) {
    expect_ended(side, other);
    expect_shrunk_works(side, other);
    expect_no_leak(side);
  }
  expect_nothing_left();
}

TEST_P(Unreachable, AWaitForARankOfAnotherHostEndsToo) {
  form_on_both();
  job_->tell({0, 1}, "receive 2 1000");
  job_->tell({2, 3}, "receive 1 1000");
  const TimePoint fault = Clock::now();
  set_link("down");
  expect_remote_error({0, 1}, {2, 3}, fault, window_, "receive");
  expect_remote_error({2, 3}, {0, 1}, fault, window_, "receive");
  expect_nothing_left();
}

TEST_P(Unreachable, AfterTheHubHasLeftAWaitForARankOfAnotherHostEndsToo) {
  form_on_both();
  EXPECT_TRUE((*job_)[0].ask("destroy").ok());
  EXPECT_EQ((*job_)[0].exit(), 0);
  (*job_)[1].tell("receive 2 1000");
  (*job_)[2].tell("receive 1 1000");
  (*job_)[3].tell("receive 2 1000");
  const TimePoint fault = Clock::now();
  set_link("down");
  const Window window{window_.from, window_.to + Seconds(2)};  // who waits for who waits hears last
  expect_remote_error({1}, {2}, fault, window, "receive");
  expect_remote_error({2, 3}, {1}, fault, window, "receive");
  expect_nothing_left();
}

INSTANTIATE_TEST_SUITE_P(Over, Unreachable, ::testing::Values("1", "0"), transport_name);

}  // namespace
}  // namespace tutti::testing
