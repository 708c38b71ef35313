#include "src/wire/service.hpp"

#include <atomic>
#include <future>

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tutti {
namespace {

using namespace std::chrono_literals;

std::shared_ptr<Service> make_service() {
  auto service = Service::create();
  EXPECT_TRUE(service);
  return *service;
}

TEST(Service, RunsTasksInOrderOnItsOwnThread) {
  auto service = make_service();
  std::vector<int> order;
  for (int i = 0; i < 100; ++i) service->post([&order, i] { order.push_back(i); });
  EXPECT_TRUE(service->call([&] { return service->on_thread(); }));
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
  EXPECT_FALSE(service->on_thread());
}

TEST(Service, RunsTasksPostedBeforeItsEnd) {
  std::atomic<int> ran{0};
  {
    auto service = make_service();
    for (int i = 0; i < 10; ++i) service->post([&] { ++ran; });
  }
  EXPECT_EQ(ran, 10);
}

TEST(Service, TimersFireInTheOrderOfTheirTimesAndCancelledOnesNever) {
  auto service = make_service();
  std::promise<std::string> done;
  std::string order;
  service->call([&] {
    const auto now = Clock::now();
    service->at(now + 30ms, [&] { done.set_value(order + "c"); });
    const auto cancelled = service->at(now + 15ms, [&] { order += "x"; });
    service->at(now + 20ms, [&] { order += "b"; });
    service->at(now + 10ms, [&] { order += "a"; });
    service->cancel(cancelled);
  });
  EXPECT_EQ(done.get_future().get(), "abc");
}

TEST(Service, CallsAHandlerWhenItsDescriptorIsReadable) {
  auto service = make_service();
  int fds[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
  Fd near(fds[0]);
  Fd far(fds[1]);
  std::promise<char> got;
  service->call([&] {
    auto id = std::make_shared<Service::WatchId>();
    auto watch = service->watch(near.get(), EPOLLIN, [&, id](std::uint32_t) {
      char c = 0;
      EXPECT_EQ(read(near.get(), &c, 1), 1);
      service->unwatch(*id);  // from inside itself
      got.set_value(c);
    });
    ASSERT_TRUE(watch);
    *id = *watch;
  });
  ASSERT_EQ(write(far.get(), "y", 1), 1);
  EXPECT_EQ(got.get_future().get(), 'y');
}

TEST(Service, DestroysAttachmentsOnItsThread) {
  std::thread::id died_on;
  std::thread::id service_thread;
  {
    auto service = make_service();
    service->call([&] {
      service_thread = std::this_thread::get_id();
      service->attachment("thing") =
          std::shared_ptr<void>(nullptr, [&](void*) { died_on = std::this_thread::get_id(); });
    });
  }
  EXPECT_EQ(died_on, service_thread);
}

TEST(Service, SleepsWhenNothingHappens) {
  auto service = make_service();
  clockid_t clock{};
  service->call([&] { pthread_getcpuclockid(pthread_self(), &clock); });
  const auto cpu_ns = [&] {
    timespec time{};
    clock_gettime(clock, &time);
    return time.tv_sec * 1'000'000'000 + time.tv_nsec;
  };
  const auto before = cpu_ns();
  std::this_thread::sleep_for(50ms);  // the span over which it must use no time
  EXPECT_LT(cpu_ns() - before, 5'000'000);
}

TEST(Service, AForkedChildCanDropIt) {
  auto service = make_service();
  const pid_t child = fork();
  if (child == 0) {
    service.reset();
    _exit(7);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7);
  EXPECT_EQ(service->call([] { return 5; }), 5);
}

}  // namespace
}  // namespace tutti
