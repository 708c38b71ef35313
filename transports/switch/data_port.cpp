#include "transports/switch/data_port.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include <poll.h>

#include "src/base/result.hpp"

namespace tutti::in_network {

Result<std::unique_ptr<DataPort>> DataPort::open(const SocketAddress& address, Sessions& sessions) {
  TUTTI_ASSIGN(Fd fd, open_datagrams(address));
  return std::unique_ptr<DataPort>(new DataPort(std::move(fd), sessions));
}

DataPort::DataPort(Fd fd, Sessions& sessions)
    : fd_(std::move(fd)), plane_(sessions), writer_(can_segment(fd_.get())) {}

void DataPort::add(std::uint64_t session, unsigned workers, const SocketAddress& above) {
  Route& route = routes_[session];
  route.workers.resize(workers);
  if (above) route.above = datagram_address(above);
}

PortCounts DataPort::counts() const {
  return {.packets = plane_.counts(), .sent = sent_, .dropped = writer_.lost()};
}

void DataPort::receive(TimePoint now) {
  constexpr int kMostBatches = 16;  // then others get their turn
  for (int batch = 0; batch < kMostBatches; ++batch) {
    const auto datagrams = reader_.receive(fd_.get());
    if (datagrams.empty()) break;
    for (const auto& datagram : datagrams) {
      source_ = reader_.source(datagram);
      plane_.take(datagram.bytes, now, *this);
    }
    flush();
  }
}

/// What the system has no room for after a short wait is lost, as on a network.
void DataPort::flush() {
  constexpr int kTries = 3;
  for (int tried = 0; !writer_.flush(fd_.get()); ++tried) {
    if (tried == kTries) return writer_.drop();
    pollfd room{.fd = fd_.get(), .events = POLLOUT, .revents = 0};
    (void)poll(&room, 1, 1);
  }
}

void DataPort::heard(const Session& session, std::uint8_t worker) {
  const auto found = routes_.find(session.id());
  if (found != routes_.end() && worker < found->second.workers.size())
    found->second.workers[worker] = source_;
}

void DataPort::to_workers(const Session& session, std::uint32_t workers,
                          std::span<const std::byte> bytes) {
  const auto found = routes_.find(session.id());
  if (found == routes_.end()) return;
  std::array<const DatagramAddress*, kMostWorkers> receivers{};
  std::size_t count = 0;
  for (; workers != 0; workers &= workers - 1) {
    const auto worker = static_cast<std::size_t>(std::countr_zero(workers));
    const DatagramAddress& to = found->second.workers[worker];
    if (to.length != 0) receivers[count++] = &to;
  }
  if (count != 0) send_to({receivers.data(), count}, bytes);
}

void DataPort::to_above(const Session& session, std::span<const std::byte> bytes) {
  const auto found = routes_.find(session.id());
  if (found == routes_.end() || found->second.above.length == 0) return;
  const DatagramAddress* const receiver = &found->second.above;
  send_to({&receiver, 1}, bytes);
}

void DataPort::reply(std::span<const std::byte> bytes) {
  const DatagramAddress* const receiver = &source_;
  send_to({&receiver, 1}, bytes);
}

void DataPort::send_to(std::span<const DatagramAddress* const> receivers,
                       std::span<const std::byte> bytes) {
  if (!writer_.has_room(receivers.size())) flush();
  std::ranges::copy(bytes, writer_.room().begin());
  writer_.add(bytes.size(), receivers);
  sent_ += receivers.size();
}

}  // namespace tutti::in_network
