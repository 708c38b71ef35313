// UDP in batches: one system call for many packets (recvmmsg(2), sendmmsg(2)), and one way through
// the kernel for several of them where it can segment and coalesce (UDP_SEGMENT, UDP_GRO;
// Linux 4.18 and 5.0).
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

/// A message beside a datagram's bytes (cmsg(3)): the own address that the datagram came to, or
/// that one leaves from. Value.
struct OwnAddress {
  int level = 0;
  int type = 0;
  std::array<std::byte, sizeof(in6_pktinfo)> info{};
  std::size_t bytes = 0;  ///< of info; 0: the system chooses
};

/// A peer's address as the kernel takes it. Value.
struct DatagramAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  OwnAddress own = {};  ///< where the peer looks for what it is sent
};
DatagramAddress datagram_address(const SocketAddress& address);

/// Packets that take one way through the kernel. More would make bursts: at 100 Mbit/s these take
/// 2 ms.
inline constexpr std::size_t kMostInARun = 16;

/// A non-blocking UDP socket on `address` (port 0: any) with large buffers, as far as the system
/// allows. On all addresses of this machine, it tells which of them a datagram came to.
Result<Fd> open_datagrams(const SocketAddress& address);

/// From now on it sends there, and receives from there alone.
Status connect_datagrams(int fd, const SocketAddress& address);

/// Receives. Resource.
class DatagramReader {
 public:
  DatagramReader();
  struct Datagram {
    std::span<const std::byte> bytes;
    std::size_t message = 0;  ///< that it came in
  };
  /// One system call. What came; none: nothing waits. Valid until the next receive().
  std::span<const Datagram> receive(int fd);
  [[nodiscard]] DatagramAddress source(const Datagram& datagram) const;

 private:
  static constexpr std::size_t kBatch = 16, kMostBytes = 65536;
  struct alignas(cmsghdr) Control {
    std::array<std::byte, CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(in6_pktinfo))> bytes;
  };
  void cut(std::size_t message);

  std::vector<std::array<std::byte, kMostBytes>> rooms_;
  std::vector<sockaddr_storage> sources_;
  std::vector<OwnAddress> own_;
  std::vector<Control> controls_;
  std::vector<iovec> pieces_;
  std::vector<mmsghdr> messages_;
  std::vector<Datagram> datagrams_;
};

/// Sends. Keeps what the socket has no room for. Resource.
class DatagramWriter {
 public:
  /// `segments`: see can_segment().
  explicit DatagramWriter(bool segments);
  /// Whether add() may be called: there is room for one more packet to `receivers`.
  [[nodiscard]] bool has_room(std::size_t receivers) const {
    return packets_ < kPackets && messages_.size() + receivers <= kMessages;
  }
  /// The room for the next packet, to be filled before add().
  [[nodiscard]] PacketBytes& room() { return rooms_[packets_]; }
  /// The packet in room(), of `bytes`, to each of these; none: to where the socket is connected.
  void add(std::size_t bytes, std::span<const DatagramAddress* const> receivers);
  /// Sends as far as the socket takes it. Returns whether nothing is left. What the kernel refuses
  /// is lost, as on a network: where it does not cut packets after all (the MTU is smaller, the
  /// device cannot, IPsec), those of a run. Later packets go one by one, to all receivers.
  bool flush(int fd);
  [[nodiscard]] bool empty() const { return messages_.empty(); }
  /// Forgets what is not sent yet.
  void drop();
  /// Packets that flush() or drop() has lost.
  [[nodiscard]] std::uint64_t lost() const { return lost_; }

 private:
  static constexpr std::size_t kPackets = 64, kMessages = 1024;
  /// Full packets that lie one after the other, for the same receivers: messages from `first` on.
  struct Run {
    iovec* piece = nullptr;
    std::size_t packets = 0;
    std::size_t first = 0;
    bool is_open = false;  ///< its last packet is full
  };
  /// The messages beside a message's bytes: where it leaves from, and that it is to be cut.
  struct alignas(cmsghdr) Control {
    std::array<std::byte, CMSG_SPACE(sizeof(in6_pktinfo)) + CMSG_SPACE(sizeof(std::uint16_t))>
        bytes;
  };
  void say_beside(std::size_t message, int level, int type, std::span<const std::byte> what);
  [[nodiscard]] bool joins(std::span<const DatagramAddress* const> receivers) const;
  void lose_next();
  void begin_run(std::size_t bytes, std::span<const DatagramAddress* const> receivers);

  bool segments_;
  std::vector<PacketBytes> rooms_;
  std::vector<iovec> pieces_;  ///< of each run
  std::vector<sockaddr_storage> receivers_;
  std::vector<mmsghdr> messages_;
  std::vector<Control> controls_;
  Run run_;
  std::vector<const DatagramAddress*> run_receivers_;
  std::size_t runs_ = 0;
  std::size_t packets_ = 0;
  std::size_t sent_ = 0;
  std::uint64_t lost_ = 0;
};

/// Whether the kernel cuts what is sent here into packets (UDP_SEGMENT).
bool can_segment(int fd);

}  // namespace tutti::in_network
