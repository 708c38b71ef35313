#include "transports/switch/switch_aggregation.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include "src/base/bytes.hpp"
#include "src/base/result.hpp"
#include "transports/switch/control.hpp"
#include "transports/switch/datagrams.hpp"
#include "transports/switch/switch_tree.hpp"
#include "transports/switch/tree_places.hpp"

namespace tutti {
namespace {

using in_network::JobToken;
using in_network::Join;
using in_network::SwitchId;
using in_network::SwitchTree;
using in_network::TreePlace;
using in_network::Welcome;

constexpr Nanos kConnectPatience = std::chrono::seconds(3);
constexpr Nanos kWelcomePatience = std::chrono::seconds(20);

/// The job's secret name of a group.
JobToken job_token(const TreesRequest& request, std::size_t group) {
  Blob context;
  ByteWriter(context).put(request.communicator).put(static_cast<std::uint64_t>(group));
  Key key{};
  std::copy_n(request.key.begin(), std::min(request.key.size(), key.size()), key.begin());
  return derive_key(key, "tutti switch job", context);
}

/// This rank's number in a group; the group's size if it is no member.
std::size_t member_of(const TreesRequest& request, std::size_t group) {
  const std::vector<Rank>& ranks = request.groups[group];
  return static_cast<std::size_t>(std::ranges::find(ranks, request.rank) - ranks.begin());
}

/// This rank's connection to the switch of a group, before it joins.
struct Door {
  std::size_t group = 0;
  SocketAddress address;
  std::string name;
  Fd fd;
  SwitchId reached = 0;
};

class SwitchAggregation final : public Aggregation {
 public:
  explicit SwitchAggregation(SwitchOptions options)
      : options_(std::move(options)), addresses_(options_.switches.size()) {}

  [[nodiscard]] std::string describe() const override {
    std::string text = options_.switches.size() == 1 ? "the switch at" : "the switches at";
    for (const SwitchAddress& each : options_.switches) text += " " + to_text(each);
    return text;
  }

  [[nodiscard]] bool comes_back() const override { return true; }
  bool may_be_back() override {
    const std::lock_guard lock(mutex_);
    if (!probe_ && !start_probe()) return false;
    pollfd state{.fd = probe_.get(), .events = POLLOUT, .revents = 0};
    if (::poll(&state, 1, 0) != 1) return false;
    const Fd probe = std::move(probe_);
    return finish_connect(probe.get(), probe_address_).ok();
  }

  Result<std::vector<std::unique_ptr<AggregationTree>>> join(const TreesRequest& request) override {
    Result<std::vector<Door>> doors = knock(request);
    // Nobody waits at a switch for a rank that does not reach its own.
    std::vector<SwitchId> reached(request.groups.size());
    if (doors)
      for (const Door& door : *doors) reached[door.group] = door.reached;
    TUTTI_ASSIGN(const std::vector<Blob> told, request.all_gather(in_network::encode(reached)));
    if (!doors) return std::move(doors).error();
    TUTTI_ASSIGN(const auto places, places_in_trees(request, told));
    std::vector<std::unique_ptr<AggregationTree>> trees(request.groups.size());
    for (Door& door : *doors) {
      const std::size_t member = member_of(request, door.group);
      TUTTI_ASSIGN(trees[door.group], enter(request, door, places[door.group], member));
    }
    return trees;
  }

 private:
  /// Begins to connect to the next of the switches that this rank has looked up.
  bool start_probe() {
    for (std::size_t tried = 0; tried < addresses_.size(); ++tried) {
      const std::vector<SocketAddress>& known = addresses_[probed_++ % addresses_.size()];
      if (known.empty()) continue;
      auto started = start_connect(known.front());
      if (!started) return false;
      probe_address_ = known.front();
      probe_ = std::move(*started);
      return true;
    }
    return false;
  }

  /// Looks a switch up once. Name servers may be slow, and later nobody may wait for them.
  Result<std::vector<SocketAddress>> addresses_of(std::size_t number) {
    const SwitchAddress& where = options_.switches[number];
    {
      const std::lock_guard lock(mutex_);
      if (!addresses_[number].empty()) return addresses_[number];
    }
    TUTTI_ASSIGN(auto found, resolve_all(where.host, where.port));
    const std::lock_guard lock(mutex_);
    return addresses_[number] = std::move(found);
  }

  /// The first address of a switch where anybody listens is the first to be tried from now on.
  Result<Fd> connect_to_any(std::size_t number, SocketAddress& reached, Deadline deadline) {
    TUTTI_ASSIGN(const auto addresses, addresses_of(number));
    const Nanos patience = kConnectPatience / static_cast<std::int64_t>(addresses.size());
    std::optional<Error> first_error;
    for (const SocketAddress& address : addresses) {
      auto connected = connect_once(address, deadline.within(patience));
      if (!connected) {
        if (!first_error) first_error = connected.error();
        continue;
      }
      reached = address;
      const std::lock_guard lock(mutex_);
      std::vector<SocketAddress>& known = addresses_[number];
      if (const auto at = std::ranges::find(known, address); at != known.end())
        std::rotate(known.begin(), at, at + 1);
      return connected;
    }
    return *std::move(first_error);
  }

  Result<std::vector<Door>> knock(const TreesRequest& request) {
    std::vector<Door> doors;
    for (std::size_t group = 0; group < request.groups.size(); ++group) {
      if (member_of(request, group) == request.groups[group].size()) continue;
      TUTTI_ASSIGN(Door door, knock_at(group % options_.switches.size(), request.deadline));
      door.group = group;
      doors.push_back(std::move(door));
    }
    return doors;
  }

  Result<Door> knock_at(std::size_t number, Deadline deadline) {
    Door door;
    door.name = "the switch at " + to_text(options_.switches[number]);
    TUTTI_ASSIGN(door.fd, connect_to_any(number, door.address, deadline));
    const auto shaken =
        shake_hands(door.fd.get(),
                    {.role = HandshakeRole::kInitiator,
                     .purpose = Purpose::kControl,
                     .self = {.token = random_u64(), .group = in_network::kSwitchGroup},
                     .key = options_.key,
                     .peer_name = door.name,
                     .remedy = in_network::kOneKey},
                    deadline.within(kConnectPatience));
    if (!shaken) return shaken.error();
    door.reached = shaken->token;
    return door;
  }

  /// Of each group, each member's: the same on all ranks.
  static Result<std::vector<std::vector<TreePlace>>> places_in_trees(
      const TreesRequest& request, const std::vector<Blob>& told) {
    std::vector<std::vector<TreePlace>> places;
    const std::size_t groups = request.groups.size();
    for (std::size_t group = 0; group < groups; ++group) {
      TUTTI_ASSIGN(const auto switches,
                   in_network::switches_of(told, groups, group, request.groups[group]));
      TUTTI_ASSIGN(places.emplace_back(), in_network::places_in_tree(switches));
    }
    return places;
  }

  Result<std::unique_ptr<AggregationTree>> enter(const TreesRequest& request, Door& door,
                                                 const std::vector<TreePlace>& places,
                                                 std::size_t member) const {
    const TreePlace& place = places[member];
    const Blob message = in_network::encode(Join{.job = job_token(request, door.group),
                                                 .workers = place.workers,
                                                 .worker = place.worker,
                                                 .slots = options_.slots,
                                                 .leaves = place.leaves,
                                                 .leaf = place.leaf});
    const Deadline deadline = request.deadline.within(kWelcomePatience);
    TUTTI_TRY(send_all(door.fd.get(), message, deadline));
    auto answer = read_welcome(door.fd.get(), deadline);
    if (!answer) return make_error(answer.error().code, "{}: {}", door.name, answer.error().what);
    Welcome welcome = *std::move(answer);
    if (!welcome.refusal.empty())
      return make_error(Code::kUnavailable, "{}: {}", door.name, welcome.refusal);
    TUTTI_ASSIGN(const SocketAddress own, local_address(door.fd.get()));
    TUTTI_ASSIGN(Fd data, in_network::open_datagrams(own.with_port(0)));
    TUTTI_TRY(in_network::connect_datagrams(data.get(), door.address.with_port(welcome.port)));
    TUTTI_ASSIGN(auto tree, SwitchTree::create({.welcome = std::move(welcome),
                                                .places = places,
                                                .member = member,
                                                .control = std::move(door.fd),
                                                .data = std::move(data),
                                                .name = door.name,
                                                .silence = options_.silence}));
    return std::unique_ptr<AggregationTree>(std::move(tree));
  }

  Result<Welcome> read_welcome(int fd, Deadline deadline) const {
    std::array<std::byte, sizeof(std::uint32_t)> length_bytes{};
    TUTTI_TRY(recv_all(fd, length_bytes, deadline));
    const auto length = ByteReader(length_bytes).get<std::uint32_t>();
    if (length > in_network::kMostControlBytes)
      return make_error(Code::kPeerFailed, "it announces a message of {} bytes", length);
    Blob message(length);
    TUTTI_TRY(recv_all(fd, message, deadline));
    return in_network::decode_welcome(message, options_.key);
  }

  const SwitchOptions options_;
  std::mutex mutex_;                                   ///< communicators share this; guards:
  std::vector<std::vector<SocketAddress>> addresses_;  ///< of each switch; empty: not looked up yet
  Fd probe_;  ///< a connection under way; never used for more than to see if it comes
  SocketAddress probe_address_;
  std::size_t probed_ = 0;
};

}  // namespace

std::unique_ptr<Aggregation> make_switch_aggregation(SwitchOptions options) {
  return std::make_unique<SwitchAggregation>(std::move(options));
}

}  // namespace tutti
