#include "tests/collectives/hostile_relay.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>

namespace tutti::testing {
namespace {

/// False at the end of the stream.
bool pass_on(int from, int to) {
  std::array<std::byte, 4096> bytes{};
  const ssize_t got = ::recv(from, bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  if (got == 0) return false;
  const auto passed = std::span(bytes).first(static_cast<std::size_t>(got));
  return send_all(to, passed, Deadline::after(std::chrono::seconds(5))).ok();
}

}  // namespace

HostileRelay::HostileRelay(std::uint16_t port, std::uint64_t seed)
    : random_(seed),
      front_address_{.family = 4, .port = port, .address = {127, 0, 0, 2}},
      switch_address_{.family = 4, .port = port, .address = {127, 0, 0, 1}},
      stop_(eventfd(0, EFD_CLOEXEC)) {
  auto listener = listen_on(front_address_);
  auto front = in_network::open_datagrams(front_address_);
  if (!listener || !front) {
    ADD_FAILURE() << "port " << port << " of 127.0.0.2 is taken";
    return;
  }
  listener_ = *std::move(listener);
  front_ = *std::move(front);
  thread_ = std::thread([this] { run(); });
}

void HostileRelay::stop() {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  EXPECT_EQ(::write(stop_.get(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
  thread_.join();
}

std::vector<int> HostileRelay::watched() const {
  std::vector<int> fds{stop_.get(), listener_.get(), front_.get()};
  for (const auto& [rank, adder] : streams_) fds.insert(fds.end(), {rank.get(), adder.get()});
  for (const Guest& guest : guests_) fds.push_back(guest.back.get());
  return fds;
}

void HostileRelay::run() {
  for (;;) {
    std::vector<pollfd> polled;
    for (const int fd : watched()) polled.push_back({.fd = fd, .events = POLLIN, .revents = 0});
    if (::poll(polled.data(), polled.size(), -1) < 0) continue;
    if (polled[0].revents != 0) return;
    accept();
    pass_on_streams();
    relay_there();
    relay_here();
  }
}

void HostileRelay::accept() {
  auto rank = accept_on(listener_.get());
  if (!rank || !*rank) return;
  auto adder = connect_once(switch_address_, Deadline::after(std::chrono::seconds(5)));
  if (adder) streams_.emplace_back(*std::move(rank), *std::move(adder));
}

void HostileRelay::pass_on_streams() {
  std::erase_if(streams_, [](const auto& stream) {
    const auto& [rank, adder] = stream;
    return !pass_on(rank.get(), adder.get()) || !pass_on(adder.get(), rank.get());
  });
}

HostileRelay::Guest& HostileRelay::guest_at(const in_network::DatagramAddress& address) {
  const auto known = std::ranges::find_if(guests_, [&](const Guest& guest) {
    return guest.address.length == address.length &&
           std::memcmp(&guest.address.storage, &address.storage, address.length) == 0;
  });
  if (known != guests_.end()) return *known;
  auto back = in_network::open_datagrams(switch_address_.with_port(0));
  EXPECT_TRUE(back && in_network::connect_datagrams(back->get(), switch_address_));
  return guests_.emplace_back(Guest{.address = address, .back = *std::move(back)});
}

void HostileRelay::relay_there() {
  for (const auto& datagram : reader_.receive(front_.get())) {
    Guest& guest = guest_at(reader_.source(datagram));
    treat(datagram.bytes, guest.there, [&](std::span<const std::byte> bytes) {
      (void)::send(guest.back.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    });
  }
}

void HostileRelay::relay_here() {
  for (Guest& guest : guests_)
    for (const auto& datagram : reader_.receive(guest.back.get()))
      treat(datagram.bytes, guest.here, [&](std::span<const std::byte> bytes) {
        (void)::sendto(front_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT,
                       reinterpret_cast<const sockaddr*>(&guest.address.storage),
                       guest.address.length);
      });
}

void HostileRelay::treat(std::span<const std::byte> bytes, Way& way, const Send& send) {
  Datagram datagram(bytes.begin(), bytes.end());
  constexpr std::size_t kMostHeld = 5, kMostOld = 200;
  way.old.push_back(datagram);
  if (way.old.size() > kMostOld) way.old.pop_front();
  if (way.held.size() > kMostHeld) {
    send(way.held.front());
    way.held.pop_front();
  }
  switch (random_() % 100) {
    case 0:
      ++counts_.lost;
      return;
    case 1:
      ++counts_.held;
      way.held.push_back(std::move(datagram));
      return;
    case 2:
      ++counts_.changed;
      datagram[random_() % datagram.size()] ^= static_cast<std::byte>(1U << random_() % 8);
      return send(datagram);
    case 3:
    case 4:
      ++counts_.repeated;
      send(way.old[random_() % way.old.size()]);
      break;
    case 5:
    case 6:
      ++counts_.forged;
      forge(datagram, send);
      break;
    default:
      break;
  }
  ++counts_.passed;
  send(datagram);
}

/// Of one that is right: another counter or chunk, other values, less of it, or anything.
void HostileRelay::forge(Datagram datagram, const Send& send) {
  constexpr std::size_t kCounter = 16, kChunk = 24;
  switch (random_() % 4) {
    case 0:
      datagram[kCounter + 1] ^= std::byte{1};
      break;
    case 1:
      datagram[kChunk] ^= std::byte{3};
      break;
    case 2:
      datagram.resize(random_() % datagram.size());
      break;
    default:
      for (std::byte& byte : std::span(datagram).subspan(datagram.size() / 2))
        byte = static_cast<std::byte>(random_());
  }
  if (!datagram.empty()) send(datagram);
}

}  // namespace tutti::testing
