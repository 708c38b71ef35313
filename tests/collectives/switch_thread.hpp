// A switch that adds, in a thread of the test.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include "src/base/fd.hpp"
#include "transports/switch/server.hpp"

namespace tutti::testing {

/// Serves on loopback until it is destroyed. Resource.
class SwitchThread {
 public:
  /// On loopback, with the key of settings().
  static in_network::ServerOptions options(std::uint16_t port = 0) {
    in_network::ServerOptions options;
    options.listen = {.family = 4, .port = port, .address = {127, 0, 0, 1}};
    options.key.fill(std::byte{7});
    return options;
  }
  /// Of a leaf below the switch at a port of loopback.
  static in_network::ServerOptions below(std::uint16_t port_above, std::uint16_t port = 0) {
    in_network::ServerOptions leaf = options(port);
    leaf.above = leaf.listen.with_port(port_above);
    return leaf;
  }

  explicit SwitchThread(in_network::ServerOptions options) : stop_(eventfd(0, EFD_CLOEXEC)) {
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
  explicit SwitchThread(in_network::SwitchLimits limits = {}, std::uint16_t port = 0)
      : SwitchThread(with_limits(limits, port)) {}
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
  static in_network::ServerOptions with_limits(in_network::SwitchLimits limits,
                                               std::uint16_t port) {
    in_network::ServerOptions limited = options(port);
    limited.limits = limits;
    return limited;
  }

  Fd stop_;
  std::unique_ptr<in_network::SwitchServer> server_;
  std::thread thread_;
  in_network::ServerCounts counts_;
};

}  // namespace tutti::testing
