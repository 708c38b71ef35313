// TCP sockets: addresses as values, choice of a network interface, listening on it alone,
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
/// Parses what to_text writes; does not resolve names.
Result<SocketAddress> parse_address(std::string_view text);
/// The addresses of `host` (a name or an address), at least one, in the order in which to try them.
/// `family`: "" or "any", "AF_INET", "AF_INET6". Asks name servers, which no deadline limits: with
/// several that are silent, a minute.
Result<std::vector<SocketAddress>> resolve_all(const std::string& host, std::uint16_t port,
                                               std::string_view family = {});
/// The first of them.
Result<SocketAddress> resolve(const std::string& host, std::uint16_t port,
                              std::string_view family = {});

/// The user's settings SOCKET_IFNAME and SOCKET_FAMILY.
struct InterfaceChoice {
  /// "eth": every interface whose name begins with it; "=eth0": that interface only; "^docker,lo":
  /// all except those. Commas separate names. "": see select_interfaces.
  std::string ifname;
  std::string family;  ///< "" or "any", "AF_INET", "AF_INET6"
  [[nodiscard]] bool chooses_nothing() const {
    return ifname.empty() && (family.empty() || family == "any");
  }
};

struct NetInterface {
  std::string name;
  SocketAddress address;  ///< port 0
  bool has_link = true;   ///< false: its cable leads nowhere now
};

/// Interfaces of this machine that are up and have an IPv4 or IPv6 address (not link-local).
Result<std::vector<NetInterface>> list_interfaces();

/// The interfaces of `all` that `choice` allows, of the best kind that it allows. If the choice
/// names none, physical ones are better than bridges, containers and virtual machines (docker,
/// veth, virbr ...), and those better than loopback. Then those with a link are better than those
/// without. IPv4 goes before IPv6. kInvalidArgument when none is left; the error lists all of them.
Result<std::vector<NetInterface>> select_interfaces(std::span<const NetInterface> all,
                                                    const InterfaceChoice& choice);

/// The best address of this machine that `choice` allows.
Result<SocketAddress> choose_address(const InterfaceChoice& choice);
/// Speed of an interface as its driver reports it; 0 when unknown, as for lo.
std::uint32_t mbit_per_s(const std::string& interface);
/// True when `address` belongs to this machine (loopback included).
bool is_local(const SocketAddress& address);

/// Listens on exactly this address (port 0: any free port), close-on-exec and non-blocking.
Result<Fd> listen_on(const SocketAddress& address, int backlog = 4096);
/// Accepts one connection from a listener that poll(2) found readable. Returns an empty Fd when
/// none waits after all. kUnavailable when out of descriptors. Non-blocking, close-on-exec.
Result<Fd> accept_on(int listener);

Result<SocketAddress> local_address(int fd);
Result<SocketAddress> remote_address(int fd);

/// Starts to connect and does not wait. When poll(2) finds the socket writable, finish_connect()
/// reports the outcome.
Result<Fd> start_connect(const SocketAddress& address);
/// Applies tune_stream to a connected socket.
Status finish_connect(int fd, const SocketAddress& address);
/// One attempt. Returns a non-blocking socket with tune_stream applied.
Result<Fd> connect_once(const SocketAddress& address, Deadline deadline);
/// Retries, with a jittered back-off of 10 ms to 1 s, while nobody listens there yet (refused,
/// reset, unreachable, timed out).
Result<Fd> connect_to(const SocketAddress& address, Deadline deadline);
/// Sleeps for the back-off after attempt number `attempt` (0, 1, ...), at most until `deadline`.
void back_off(int attempt, Deadline deadline);

/// Sets TCP_NODELAY and keepalive. The connection ends when sent data stays unacknowledged for
/// `silence`.
void tune_stream(int fd, Nanos silence = std::chrono::seconds(15));
Status set_nonblocking(int fd);

/// Transfers the whole buffer over a stream socket, blocking or not. kPeerFailed at the end of the
/// stream, kTimeout at the deadline.
Status send_all(int fd, std::span<const std::byte> data, Deadline deadline);
Status recv_all(int fd, std::span<std::byte> data, Deadline deadline);

/// Raises the soft limit of open files to at least `wanted`, as far as the hard limit allows.
/// Returns the limit in force.
std::uint64_t raise_fd_limit(std::uint64_t wanted);

}  // namespace tutti
