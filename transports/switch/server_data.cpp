// The packets of SwitchServer.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include <poll.h>

#include "transports/switch/server.hpp"

namespace tutti::in_network {

void SwitchServer::receive(TimePoint now) {
  constexpr int kMostBatches = 16;  // then others get their turn
  for (int batch = 0; batch < kMostBatches; ++batch) {
    const auto datagrams = reader_.receive(data_.get());
    if (datagrams.empty()) break;
    for (const auto& datagram : datagrams) {
      source_ = reader_.source(datagram);
      plane_->take(datagram.bytes, now, *this);
    }
    flush();
  }
}

/// What the system has no room for after a short wait is lost, as on a network.
void SwitchServer::flush() {
  constexpr int kTries = 3;
  for (int tried = 0; !writer_->flush(data_.get()); ++tried) {
    if (tried == kTries) {
      counts_.dropped += writer_->drop();
      return;
    }
    pollfd room{.fd = data_.get(), .events = POLLOUT, .revents = 0};
    (void)poll(&room, 1, 1);
  }
}

void SwitchServer::heard(const Session& session, std::uint8_t worker) {
  const auto found = open_.find(session.id());
  if (found != open_.end() && worker < found->second.workers.size())
    found->second.workers[worker] = source_;
}

void SwitchServer::to_workers(const Session& session, std::uint32_t workers,
                              std::span<const std::byte> bytes) {
  const auto found = open_.find(session.id());
  if (found == open_.end()) return;
  std::array<const DatagramAddress*, kMostWorkers> receivers{};
  std::size_t count = 0;
  for (; workers != 0; workers &= workers - 1) {
    const auto worker = static_cast<std::size_t>(std::countr_zero(workers));
    const DatagramAddress& to = found->second.workers[worker];
    if (to.length != 0) receivers[count++] = &to;
  }
  if (count != 0) send_to({receivers.data(), count}, bytes);
}

/// This switch is the top of its tree.
void SwitchServer::to_above(const Session& /*session*/, std::span<const std::byte> /*bytes*/) {}

void SwitchServer::reply(std::span<const std::byte> bytes) {
  const DatagramAddress* const receiver = &source_;
  send_to({&receiver, 1}, bytes);
}

void SwitchServer::send_to(std::span<const DatagramAddress* const> receivers,
                           std::span<const std::byte> bytes) {
  if (!writer_->has_room(receivers.size())) flush();
  std::ranges::copy(bytes, writer_->room().begin());
  writer_->add(bytes.size(), receivers);
  counts_.sent += receivers.size();
}

}  // namespace tutti::in_network
