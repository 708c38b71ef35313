// Two hosts that lose each other. Run by tests/hosts/with_hosts.
#include <array>
#include <cstdlib>
#include <sstream>
#include <thread>

#include <poll.h>

#include "src/wire/net.hpp"
#include "tests/faults/faults.hpp"
#include "tests/hosts/on_host.hpp"
#include "transports/tcp/tcp_link.hpp"

namespace tutti::testing {
namespace {

constexpr Seconds kLiveness(3);

/// What with_hosts has made. The link is up again when this goes.
class TwoHosts {
 public:
  TwoHosts() {
    const char* hosts = std::getenv("HOSTS");
    const char* links = std::getenv("LINKS");
    if (hosts != nullptr) std::istringstream(hosts) >> names_[0] >> names_[1];
    if (links != nullptr) std::istringstream(links) >> link_;
    set_link("up");
  }
  ~TwoHosts() { set_link("up"); }
  TwoHosts(const TwoHosts&) = delete;
  TwoHosts& operator=(const TwoHosts&) = delete;

  [[nodiscard]] const std::string& name(int host) const { return names_[host]; }
  void cut() const { set_link("down"); }

 private:
  void set_link(const std::string& state) const {
    const std::string command = "ip -n " + names_[0] + " link set " + link_ + " " + state;
    EXPECT_EQ(std::system(command.c_str()), 0) << command << ": run this by tests/hosts/with_hosts";
  }

  std::array<std::string, 2> names_;
  std::string link_;
};

// ---- one connection

class LinkBetweenHosts : public ::testing::Test {
 protected:
  static constexpr Nanos kLimit = std::chrono::seconds(1);

  void SetUp() override {
    const Deadline deadline = Deadline::after(std::chrono::seconds(5));
    const Fd listener = on_host(hosts_.name(1), [] { return listen_on(*parse_address(kThere)); });
    const SocketAddress there = *local_address(listener.get());
    here_ = std::make_unique<TcpLink>(
        on_host(hosts_.name(0), [&] { return connect_once(there, deadline); }), kLimit);
    pollfd visitor{listener.get(), POLLIN, 0};
    ASSERT_EQ(::poll(&visitor, 1, deadline.poll_ms(5000)), 1);
    there_ = *accept_on(listener.get());
  }
  void TearDown() override {
    if (here_) here_->shutdown();
  }

  std::size_t write_some() {
    static std::array<char, 65536> data{};
    const iovec piece{data.data(), data.size()};
    const auto written = here_->write({&piece, 1});
    EXPECT_TRUE(written) << written.error().what;
    return written ? *written : 0;
  }
  /// Until the peer, who reads nothing, takes no more.
  void fill() {
    for (int idle = 0; idle < 20; ++idle) {
      while (write_some() > 0) idle = 0;
      ::poll(nullptr, 0, 10);
    }
  }
  /// The error that check() comes to within `patience`, as often as a waiting rank calls it.
  Status checks_for(Nanos patience) {
    for (const Deadline deadline = Deadline::after(patience); !deadline.passed();) {
      for (int i = 0; i < 256; ++i)
        if (auto checked = here_->check(); !checked) return checked.error();
      ::poll(nullptr, 0, 1);
    }
    return ok_status();
  }
  void expect_silence_is_found() {
    const TimePoint fault = Clock::now();
    const Status silent = checks_for(3 * kLimit);
    EXPECT_GE(Clock::now() - fault, kLimit * 7 / 10);
    EXPECT_LE(Clock::now() - fault, kLimit * 2);  // it looks each quarter of the limit
    ASSERT_FALSE(silent);
    EXPECT_THAT(silent.error().what, ::testing::HasSubstr("acknowledged nothing for 1.0 s"));
  }

  static constexpr const char* kThere = "10.213.0.2:0";
  TwoHosts hosts_;
  std::unique_ptr<TcpLink> here_;
  Fd there_;
};

TEST_F(LinkBetweenHosts, APeerThatDoesNotReadIsNotSilent) {
  fill();
  EXPECT_TRUE(checks_for(3 * kLimit));
}

TEST_F(LinkBetweenHosts, AHostThatIsCutOffWithDataUnderWayIsSilent) {
  hosts_.cut();
  EXPECT_GT(write_some(), 0U);
  expect_silence_is_found();
}

TEST_F(LinkBetweenHosts, AHostThatIsCutOffAfterAnIdleTimeIsSilentNoSooner) {
  EXPECT_GT(write_some(), 0U);
  EXPECT_TRUE(checks_for(2 * kLimit));
  hosts_.cut();
  EXPECT_GT(write_some(), 0U);
  expect_silence_is_found();
}

// ---- a job

class Unreachable : public FaultsOver {
 protected:
  /// Ranks 0 and 1 on one host, 2 and 3 on the other.
  void form_on_both() {
    const Place here{.private_shm_bytes = 0, .host = hosts_.name(0)};
    const Place there{.private_shm_bytes = 0, .host = hosts_.name(1)};
    form({here, here, there, there}, {{"TUTTI_LIVENESS", std::to_string(kLiveness.count())}});
  }

  /// The limit counts from the last sign of life, which may be a quarter of it older than the
  /// fault.
  const Window window_{0.7 * kLiveness, 1.5 * kLiveness* kSlack};
  TwoHosts hosts_;
};

TEST_P(Unreachable, HostsThatLoseEachOtherEachGoOnAlone) {
  form_on_both();
  enter_operations(job_->all());
  const TimePoint fault = Clock::now();
  hosts_.cut();
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
  hosts_.cut();
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
  hosts_.cut();
  const Window window{window_.from, window_.to + Seconds(2)};  // who waits for who waits hears last
  expect_remote_error({1}, {2}, fault, window, "receive");
  expect_remote_error({2, 3}, {1}, fault, window, "receive");
  expect_nothing_left();
}

INSTANTIATE_TEST_SUITE_P(Over, Unreachable, ::testing::Values("shm", "tcp"), transport_name);

}  // namespace
}  // namespace tutti::testing
