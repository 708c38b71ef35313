// Sockets of another host of this machine, for tests beside two of them (with_hosts, with_latency).
#pragma once

#include <string>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>

#include "src/base/fd.hpp"

namespace tutti::testing {

/// Calls `open` with the network of this host. Returns the Fd that it makes; none after a failed
/// expectation.
template <class Open>
Fd on_host(const std::string& host, Open open) {
  Fd socket;
  std::thread([&] {
    const Fd network(::open(("/run/netns/" + host).c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_EQ(::setns(network.get(), CLONE_NEWNET), 0) << host;
    auto opened = open();
    ASSERT_TRUE(opened) << opened.error().what;
    socket = *std::move(opened);
  }).join();
  return socket;
}

}  // namespace tutti::testing
