// TCP sockets: addresses as values, the choice of the interface, listening on that one alone,
// connecting with a deadline.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sys/socket.h>

#include "src/base/clock.hpp"
#include "src/base/fd.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// An IPv4 or IPv6 address and a port. Value.
struct SocketAddress {
  std::uint8_t family = 0;                 ///< 4, 6, or 0: none
  std::uint16_t port = 0;                  ///< host byte order
  std::array<std::uint8_t, 16> address{};  ///< network byte order; IPv4 in the first four bytes
  std::uint32_t scope = 0;                 ///< interface index of a link-local IPv6 address

  friend bool operator==(const SocketAddress&, const SocketAddress&) = default;
  explicit operator bool() const { return family != 0; }
  [[nodiscard]] SocketAddress with_port(std::uint16_t other) const;
  [[nodiscard]] bool is_loopback() const;
};

/// "10.0.0.1:29500", "[fe80::1%2]:29500"
std::string to_text(const SocketAddress& address);
/// Reads what to_text writes; no names are looked up.
Result<SocketAddress> parse_address(std::string_view text);
/// Looks `host` up (a name or an address). `family` "" or "any", "AF_INET", "AF_INET6".
Result<SocketAddress> resolve(const std::string& host, std::uint16_t port,
                              std::string_view family = {});

/// The users' settings SOCKET_IFNAME and SOCKET_FAMILY.
struct InterfaceChoice {
  /// "eth" takes every interface whose name begins so, "=eth0" that one, "^docker,lo" all but
  /// those; several names are separated by commas. "": what reaches other hosts, see
  /// select_interfaces.
  std::string ifname;
  std::string family;  ///< "" or "any", "AF_INET", "AF_INET6"
  [[nodiscard]] bool chooses_nothing() const {
    return ifname.empty() && (family.empty() || family == "any");
  }
};

struct NetInterface {
  std::string name;
  SocketAddress address;  ///< port 0
};

/// Interfaces of this machine that are up and have an address of IPv4 or IPv6 (not link-local).
Result<std::vector<NetInterface>> list_interfaces();

/// Those of `all` that `choice` allows, best first. Without a name in the choice: physical ones
/// before bridges, containers and virtual machines (docker, veth, virbr ...), loopback last, and
/// IPv4 before IPv6. kInvalidArgument when none is left; the error lists what there is.
Result<std::vector<NetInterface>> select_interfaces(std::span<const NetInterface> all,
                                                    const InterfaceChoice& choice);

/// The best address of this machine by `choice`.
Result<SocketAddress> choose_address(const InterfaceChoice& choice);
/// How fast its driver says that an interface is; 0: it does not know, as that of lo.
std::uint32_t mbit_per_s(const std::string& interface);
/// True when `address` is one of this machine's (loopback included).
bool is_local(const SocketAddress& address);

/// Listens on exactly this address (port 0: any free port), close-on-exec and non-blocking.
Result<Fd> listen_on(const SocketAddress& address, int backlog = 4096);
/// One connection from a listener that poll(2) found readable; an empty Fd when there is none after
/// all. kUnavailable when descriptors are short. Non-blocking, close-on-exec.
Result<Fd> accept_on(int listener);

Result<SocketAddress> local_address(int fd);
Result<SocketAddress> remote_address(int fd);

/// Begins to connect and does not wait: poll(2) finds the socket writable when finish_connect() can
/// tell how it went.
Result<Fd> start_connect(const SocketAddress& address);
/// Applies tune_stream to a socket that is connected.
Status finish_connect(int fd, const SocketAddress& address);
/// One attempt. The socket comes back non-blocking, with tune_stream applied.
Result<Fd> connect_once(const SocketAddress& address, Deadline deadline);
/// Tries again, with a jittered back-off of 10 ms to 1 s, while nobody listens there yet (refused,
/// reset, unreachable, timed out).
Result<Fd> connect_to(const SocketAddress& address, Deadline deadline);
/// Sleeps for the back-off of the given attempt (0, 1, ...), at most until `deadline`.
void back_off(int attempt, Deadline deadline);

/// No delay, keepalive, and an end after `silence` without an acknowledgement of sent data.
void tune_stream(int fd, Nanos silence = std::chrono::seconds(15));
Status set_nonblocking(int fd);

/// Whole buffers over a stream socket, blocking or not. kPeerFailed at its end, kTimeout at the
/// deadline.
Status send_all(int fd, std::span<const std::byte> data, Deadline deadline);
Status recv_all(int fd, std::span<std::byte> data, Deadline deadline);

/// Raises the soft limit of open files to at least `wanted`, as far as the hard one allows; returns
/// the limit in force.
std::uint64_t raise_fd_limit(std::uint64_t wanted);

}  // namespace tutti
