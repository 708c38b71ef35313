#include "tools/doctor/station.hpp"

#include <cerrno>
#include <string_view>
#include <utility>

#include "src/base/result.hpp"
#include "src/builtin/builtin.hpp"
#include "src/wire/net.hpp"
#include "tools/doctor/collect.hpp"
#include "tools/doctor/measure.hpp"

namespace tutti::doctor {
namespace {

constexpr Nanos kReach = std::chrono::seconds(4);  // two repetitions of the first packet
constexpr Nanos kConnect = std::chrono::seconds(4);

Reach::Outcome outcome_of(const Error& error) {
  switch (error.os_errno) {
    case ECONNREFUSED:
      return Reach::Outcome::kRefused;
    case ETIMEDOUT:
      return Reach::Outcome::kTimedOut;
    case EHOSTUNREACH:
    case ENETUNREACH:
      return Reach::Outcome::kNoRoute;
    default:
      return error.code == Code::kTimeout ? Reach::Outcome::kTimedOut : Reach::Outcome::kFailed;
  }
}

}  // namespace

Reach reach(const std::string& address) {
  const auto where = parse_address(address);
  if (!where) return {Reach::Outcome::kFailed, where.error().what};
  const auto connected = connect_once(*where, Deadline::after(kReach));
  if (connected) return {};
  return {outcome_of(connected.error()), connected.error().what};
}

Station::Station(const Key& key, HostFacts facts, std::shared_ptr<Transport> tcp,
                 std::shared_ptr<Transport> rdma)
    : key_(key), facts_(std::move(facts)), tcp_(std::move(tcp)), rdma_(std::move(rdma)) {}

Result<std::unique_ptr<Station>> Station::open(const Settings& settings, std::uint64_t token,
                                               const Key& key, const std::string& version) {
  TUTTI_ASSIGN(auto tcp, open_tcp(settings, token));
  const Blob address = tcp->address();
  TUTTI_ASSIGN(HostFacts facts,
               facts_of_this_host(settings, version,
                                  {reinterpret_cast<const char*>(address.data()), address.size()}));
  facts.token = token;
  facts.tcp_address = address;
  facts.rdma = rdma_of_this_host(settings);
  std::shared_ptr<Transport> rdma;
  if (!facts.rdma.rails.empty()) {
    auto opened = open_rdma(
        settings, token, std::make_shared<ThisHost>(std::make_unique<topo::FilesProbe>(), settings),
        nullptr);
    if (opened) {
      rdma = *std::move(opened);
      facts.rdma_address = rdma->address();
    } else {
      facts.rdma.transport_error = opened.error().what;
    }
  }
  return std::unique_ptr<Station>(
      new Station(key, std::move(facts), std::move(tcp), std::move(rdma)));
}

LinkFacts Station::measure(Transport& transport, const HostFacts& peer, const Blob& address,
                           bool leads) {
  const PeerProcess process{.token = peer.token, .rank = peer.rank, .address = address};
  const auto connection = transport.connect(process, key_, Deadline::after(kConnect));
  if (!connection) return {.connected = false, .error = connection.error().what};
  const Ends ends{facts_.rank, peer.rank};
  if (leads) return lead(**connection, ends);
  LinkFacts link{.connected = true};
  if (const Status followed = follow(**connection, ends); !followed)
    link.error = followed.error().what;
  return link;
}

PairReport Station::check(const HostFacts& peer, bool leads) {
  PairReport report;
  report.reach = reach(peer.tcp.address);
  if (report.reach.outcome != Reach::Outcome::kReached) {
    // Who of the two dials is left to chance, so it might work this time.
    report.tcp.error = "not tried, since the other host cannot be reached";
    return report;
  }
  report.tcp = measure(*tcp_, peer, peer.tcp_address, leads);
  // Both sides come to the same answer, since matching is symmetric.
  const bool meets = verbs::match_rails(facts_.rdma.rails, peer.rdma.rails).ok();
  if (meets && rdma_ && !peer.rdma_address.empty())
    report.rdma = measure(*rdma_, peer, peer.rdma_address, leads);
  return report;
}

}  // namespace tutti::doctor
