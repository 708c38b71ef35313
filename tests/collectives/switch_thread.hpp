// A switch that adds, in a thread of the test.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include "src/base/fd.hpp"
#include "transports/switch/server.hpp"

namespace tutti::testing {

/// Serves on loopback until it is destroyed. Resource.
class SwitchThread {
 public:
  explicit SwitchThread(in_network::SwitchLimits limits = {}, std::uint16_t port = 0)
      : stop_(eventfd(0, EFD_CLOEXEC)) {
    in_network::ServerOptions options;
    options.listen = {.family = 4, .port = port, .address = {127, 0, 0, 1}};
    options.key.fill(std::byte{7});
    options.limits = limits;
    auto server = in_network::SwitchServer::create(std::move(options));
    if (!server) {
      ADD_FAILURE() << server.error().what;
      return;
    }
    server_ = *std::move(server);
    thread_ = std::thread([this] {
      const auto served = server_->serve(stop_.get());
      EXPECT_TRUE(served) << served.error().what;
    });
  }
  ~SwitchThread() { stop(); }
  SwitchThread(const SwitchThread&) = delete;
  SwitchThread& operator=(const SwitchThread&) = delete;

  /// Ends the switch as a crash would: its connections close.
  void stop() {
    if (!thread_.joinable()) return;
    const std::uint64_t one = 1;
    EXPECT_EQ(write(stop_.get(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
    thread_.join();
    counts_ = server_->counts();
    server_.reset();
  }
  [[nodiscard]] std::uint16_t port() const { return server_->address().port; }
  /// After stop().
  [[nodiscard]] const in_network::ServerCounts& counts() const { return counts_; }

  /// TUTTI_SWITCH and TUTTI_SWITCH_KEY.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> settings() const {
    std::string key;
    for (int i = 0; i < 32; ++i) key += "07";
    return {{"SWITCH", "127.0.0.1:" + std::to_string(port())}, {"SWITCH_KEY", key}};
  }

 private:
  Fd stop_;
  std::unique_ptr<in_network::SwitchServer> server_;
  std::thread thread_;
  in_network::ServerCounts counts_;
};

}  // namespace tutti::testing
