#include "src/base/process_life.hpp"

#include <array>
#include <csignal>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/fd.hpp"

namespace tutti {
namespace {

/// A child that waits to be killed; a zombie once it is.
class Child {
 public:
  Child() : pid_(::fork()) {
    if (pid_ != 0) return;
    for (;;) ::pause();
  }
  ~Child() {
    end();
    reap();
  }
  void end() const {
    ::kill(pid_, SIGKILL);
    siginfo_t info;
    ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT);
  }
  void reap() const { ::waitpid(pid_, nullptr, 0); }
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

TEST(ProcessLife, EndsWithTheProcessBeforeAndAfterItsParentLooks) {
  const Child child;
  const ProcessLife life = ProcessLife::of(child.pid());
  EXPECT_FALSE(life.ended());
  child.end();
  EXPECT_TRUE(life.ended()) << "a zombie";
  child.reap();
  EXPECT_TRUE(life.ended()) << "no process";
  EXPECT_TRUE(ProcessLife::of(child.pid()).ended()) << "nor was there one";
}

TEST(ProcessLife, OfNobodyNeverEnds) {
  EXPECT_FALSE(ProcessLife().ended());
  EXPECT_FALSE(ProcessLife::of(0).ended());
  EXPECT_FALSE(ProcessLife::of(-1).ended());
}

TEST(ProcessLife, OfASocketIsThatOfThePeer) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  const Fd one(ends[0]), other(ends[1]);
  EXPECT_FALSE(ProcessLife::of_peer(one.get()).ended());
}

}  // namespace
}  // namespace tutti
