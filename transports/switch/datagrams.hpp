// UDP in batches: one system call for many packets (recvmmsg(2), sendmmsg(2)).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <netinet/in.h>
#include <sys/socket.h>

#include "src/base/fd.hpp"
#include "src/switch/packet.hpp"
#include "src/wire/net.hpp"
#include "tutti/error.hpp"

namespace tutti::in_network {

/// A peer's address as the kernel takes it. Value.
struct DatagramAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
};

/// A non-blocking UDP socket on `address` (port 0: any) with large buffers, as far as the system
/// allows.
Result<Fd> open_datagrams(const SocketAddress& address);

/// From now on it sends there, and receives from there alone.
Status connect_datagrams(int fd, const SocketAddress& address);

/// Receives. Resource.
class DatagramReader {
 public:
  DatagramReader();
  /// One system call. How many datagrams came; 0: none waits. Those of more than a packet's bytes
  /// come with kMostPacketBytes + 1, so that they are seen to be too long.
  std::size_t receive(int fd);
  /// Valid until the next receive().
  [[nodiscard]] std::span<const std::byte> bytes(std::size_t i) const {
    return {rooms_[i].data(), messages_[i].msg_len};
  }
  [[nodiscard]] DatagramAddress source(std::size_t i) const;

 private:
  static constexpr std::size_t kBatch = 64;
  std::vector<std::array<std::byte, kMostPacketBytes + 1>> rooms_;
  std::vector<sockaddr_storage> sources_;
  std::vector<iovec> pieces_;
  std::vector<mmsghdr> messages_;
};

/// Sends. Keeps what the socket has no room for. Resource.
class DatagramWriter {
 public:
  DatagramWriter();
  /// Whether add() may be called: there is room for one more packet to `receivers`.
  [[nodiscard]] bool has_room(std::size_t receivers) const {
    return packets_ < kPackets && messages_.size() + receivers <= kMessages;
  }
  /// The room for the next packet, to be filled before add().
  [[nodiscard]] PacketBytes& room() { return rooms_[packets_]; }
  /// The packet in room(), of `bytes`, to each of these; none: to where the socket is connected.
  void add(std::size_t bytes, std::span<const DatagramAddress* const> receivers);
  /// Sends as far as the socket takes it. Returns whether all is sent.
  bool flush(int fd);
  [[nodiscard]] bool empty() const { return messages_.empty(); }
  /// Forgets what is not sent yet, and returns how many datagrams that are.
  std::size_t drop();

 private:
  static constexpr std::size_t kPackets = 64, kMessages = 1024;
  std::vector<PacketBytes> rooms_;
  std::vector<iovec> pieces_;  ///< of each packet
  std::vector<sockaddr_storage> receivers_;
  std::vector<mmsghdr> messages_;
  std::size_t packets_ = 0;
  std::size_t sent_ = 0;
};

}  // namespace tutti::in_network
