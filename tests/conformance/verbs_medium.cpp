#include <cstdlib>
#include <deque>
#include <filesystem>
#include <iostream>
#include <mutex>
#include <random>

#include <gtest/gtest.h>
#include <unistd.h>

#include "src/verbs/fake/client.hpp"
#include "tests/conformance/connected_pair.hpp"
#include "tests/conformance/meet.hpp"
#include "transports/verbs/verbs_transport.hpp"

namespace tutti::testing {
namespace {

// Two hosts with two rails.
constexpr const char* kDevices = R"("devices": [
  {"name": "a0", "ports": [{"gids": [{"gid": "::ffff:10.0.0.1"}]}]},
  {"name": "a1", "ports": [{"gids": [{"gid": "::ffff:10.0.1.1"}]}]},
  {"name": "b0", "ports": [{"gids": [{"gid": "::ffff:10.0.0.2"}]}]},
  {"name": "b1", "ports": [{"gids": [{"gid": "::ffff:10.0.1.2"}]}]}])";

const verbs::FakeClient& fake() {
  static const verbs::FakeClient kClient(FAKE_VERBS_LIBRARY);
  return kClient;
}

/// "rxe0,rxe1": the devices of this machine that both sides use in place of those in memory. Null:
/// those in memory.
const char* real_devices() {
  return std::getenv("TUTTI_TEST_RDMA");  // NOLINT(concurrency-mt-unsafe)
}

void prepare(const std::string& network = "", std::uint64_t seed = 0) {
  if (real_devices() != nullptr || fake().live() != 0) return;  // another transport is there
  fake().reset("{" + std::string(kDevices) +
                   (network.empty() ? "" : ", \"network\": \"" + network + "\"") + "}",
               seed);
}

std::shared_ptr<Transport> transport_on(const char* devices, std::uint64_t token) {
  auto library =
      real_devices() == nullptr ? verbs::Library::open(FAKE_VERBS_LIBRARY) : verbs::Library::open();
  EXPECT_TRUE(library) << library.error().what;
  auto transport = make_verbs_transport(
      *library, {.token = token,
                 .interfaces = {.ifname = "lo", .family = ""},
                 .ports = {.devices = real_devices() == nullptr ? devices : real_devices()}});
  EXPECT_TRUE(transport) << transport.error().what;
  return *transport;
}

/// Registers every buffer before it is used, so that large messages travel by puts; by lanes that
/// have all the bits of `lanes`.
class RegisteringConnection final : public Connection {
 public:
  RegisteringConnection(std::shared_ptr<Connection> inner, std::shared_ptr<Transport> transport,
                        Lane lanes)
      : inner_(std::move(inner)), transport_(std::move(transport)), lanes_(lanes) {}

  void send(const StreamId& stream, const MessageTag& tag, std::span<const std::byte> data,
            Transfer& transfer) override {
    keep(data);
    inner_->send(at(stream), tag, data, transfer);
  }
  void send_with_next(const StreamId& stream, const MessageTag& tag,
                      std::span<const std::byte> data, Transfer& transfer) override {
    keep(data);
    inner_->send_with_next(at(stream), tag, data, transfer);
  }
  void recv(const StreamId& stream, const MessageTag& tag, std::span<std::byte> data,
            Transfer& transfer) override {
    keep(data);
    inner_->recv(at(stream), tag, data, transfer);
  }
  void cancel(const StreamId& stream, Transfer& transfer) override {
    inner_->cancel(at(stream), transfer);
  }
  bool progress() override { return inner_->progress(); }
  [[nodiscard]] int poll_fd() const override { return inner_->poll_fd(); }
  [[nodiscard]] bool wants_write() const override { return inner_->wants_write(); }
  [[nodiscard]] Status health() const override { return inner_->health(); }
  [[nodiscard]] std::span<std::byte> mapped() const override { return inner_->mapped(); }
  [[nodiscard]] pid_t local_pid() const override { return inner_->local_pid(); }

 private:
  [[nodiscard]] StreamId at(StreamId stream) const {
    stream.lane |= lanes_;
    return stream;
  }
  // Buffers come and go: one that lies where another was is registered anew.
  void keep(std::span<const std::byte> data) {
    if (data.empty()) return;
    const std::scoped_lock lock(mutex_);
    std::erase_if(pieces_, [&](const Piece& piece) {
      return piece.memory.data() < data.data() + data.size() &&
             data.data() < piece.memory.data() + piece.memory.size();
    });
    auto registration =
        transport_->register_memory({const_cast<std::byte*>(data.data()), data.size()});
    EXPECT_TRUE(registration) << registration.error().what;
    pieces_.push_back({data, *std::move(registration)});
    if (pieces_.size() > 256) pieces_.pop_front();
  }
  struct Piece {
    std::span<const std::byte> memory;
    std::shared_ptr<const void> registration;
  };
  const std::shared_ptr<Connection> inner_;
  const std::shared_ptr<Transport> transport_;
  const Lane lanes_;
  std::mutex mutex_;
  std::deque<Piece> pieces_;
};

/// The folder by which queue pairs of this process and of its children find each other.
class NetworkFolder {
 public:
  NetworkFolder() : path_("/tmp/tutti-fake-verbs-" + std::to_string(::getpid())) {}
  ~NetworkFolder() {
    if (is_first()) std::filesystem::remove_all(path_);
  }
  [[nodiscard]] const std::string& made() const {
    std::filesystem::create_directories(path_);
    return path_;
  }
  [[nodiscard]] bool is_first() const { return ::getpid() == first_; }

 private:
  const pid_t first_ = ::getpid();
  const std::string path_;
};
const NetworkFolder kFolder;

}  // namespace

std::shared_ptr<Transport> verbs_transport(std::uint64_t token) {
  prepare(kFolder.made());
  return transport_on(kFolder.is_first() ? "a" : "b", token);
}

const Medium& verbs_medium() {
  static const Medium kMedium{.name = "Verbs", .connect = [] {
                                prepare();
                                return meet(transport_on("a", 1), transport_on("b", 2));
                              }};
  return kMedium;
}

namespace {

ConnectedPair meet_registered(Lane lanes = 0) {
  const auto a = transport_on("a", 1);
  const auto b = transport_on("b", 2);
  ConnectedPair pair = meet(a, b);
  pair.a = std::make_shared<RegisteringConnection>(std::move(pair.a), a, lanes);
  pair.b = std::make_shared<RegisteringConnection>(std::move(pair.b), b, lanes);
  return pair;
}

}  // namespace

const Medium& registered_verbs_medium() {
  static const Medium kMedium{.name = "RegisteredVerbs", .connect = [] {
                                prepare();
                                return meet_registered();
                              }};
  return kMedium;
}

const Medium& device_lanes_medium() {
  static const Medium kMedium{.name = "DeviceLanes",
                              .connect =
                                  [] {
                                    prepare();
                                    return meet_registered(kDeviceLanes);
                                  },
                              .short_ones_wait = true};
  return kMedium;
}

const Medium& hostile_verbs_medium() {
  static const Medium kMedium{.name = "HostileVerbs",
                              .connect =
                                  [] {
                                    const std::uint64_t seed =
                                        1 + std::uint64_t{std::random_device{}()};
                                    std::cout << "verbs seed " << seed << "\n";
                                    prepare("", seed);
                                    if (real_devices() == nullptr)
                                      fake().chances({.fail_work = 2, .lose = 5});
                                    return meet_registered();
                                  },
                              .largest = 4 << 20};
  return kMedium;
}

const Medium& damaging_verbs_medium() {
  static const Medium kMedium{.name = "DamagingVerbs", .connect = [] {
                                const std::uint64_t seed =
                                    1 + std::uint64_t{std::random_device{}()};
                                std::cout << "verbs seed " << seed << "\n";
                                prepare("", seed);
                                ConnectedPair pair = meet_registered();
                                fake().chances({.damage = 50});
                                return pair;
                              }};
  return kMedium;
}

}  // namespace tutti::testing
