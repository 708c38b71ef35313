#include "src/wire/net.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <thread>
#include <tuple>

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>

#include "src/base/result.hpp"
#include "src/wire/crypto.hpp"

namespace tutti {
namespace {

struct RawAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

RawAddress to_raw(const SocketAddress& address) {
  RawAddress raw;
  if (address.family == 4) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(address.port);
    std::memcpy(&in.sin_addr, address.address.data(), 4);
    std::memcpy(&raw.storage, &in, sizeof in);
    raw.length = sizeof in;
  } else {
    sockaddr_in6 in{};
    in.sin6_family = AF_INET6;
    in.sin6_port = htons(address.port);
    in.sin6_scope_id = address.scope;
    std::memcpy(&in.sin6_addr, address.address.data(), 16);
    std::memcpy(&raw.storage, &in, sizeof in);
    raw.length = sizeof in;
  }
  return raw;
}

SocketAddress from_raw(const sockaddr* raw) {
  SocketAddress address;
  if (raw->sa_family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, raw, sizeof in);
    address.family = 4;
    address.port = ntohs(in.sin_port);
    std::memcpy(address.address.data(), &in.sin_addr, 4);
  } else if (raw->sa_family == AF_INET6) {
    sockaddr_in6 in{};
    std::memcpy(&in, raw, sizeof in);
    address.family = 6;
    address.port = ntohs(in.sin6_port);
    address.scope = in.sin6_scope_id;
    std::memcpy(address.address.data(), &in.sin6_addr, 16);
  }
  return address;
}

bool is_link_local(const SocketAddress& address) {
  return address.family == 6 && address.address[0] == 0xfe && (address.address[1] & 0xc0) == 0x80;
}

Result<int> family_of(std::string_view text) {
  if (text.empty() || text == "any") return AF_UNSPEC;
  if (text == "AF_INET") return AF_INET;
  if (text == "AF_INET6") return AF_INET6;
  return make_error(Code::kInvalidArgument,
                    "socket family \"{}\" is unknown: use AF_INET or AF_INET6", text);
}

void set_option(int fd, int level, int name, int value) {
  ::setsockopt(fd, level, name, &value, sizeof value);  // tuning only: no failure matters
}

}  // namespace

// ---- addresses ----

SocketAddress SocketAddress::with_port(std::uint16_t other) const {
  SocketAddress copy = *this;
  copy.port = other;
  return copy;
}

bool SocketAddress::is_loopback() const {
  if (family == 4) return address[0] == 127;
  constexpr std::array<std::uint8_t, 16> kOne = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  return family == 6 && address == kOne;
}

std::string to_text(const SocketAddress& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.family == 4) {
    ::inet_ntop(AF_INET, address.address.data(), text, sizeof text);
    return fmt::format("{}:{}", text, address.port);
  }
  if (address.family == 6) {
    ::inet_ntop(AF_INET6, address.address.data(), text, sizeof text);
    const std::string scope = address.scope != 0 ? fmt::format("%{}", address.scope) : "";
    return fmt::format("[{}{}]:{}", text, scope, address.port);
  }
  return "(no address)";
}

Result<SocketAddress> parse_address(std::string_view text) {
  const auto bad = [&] {
    return make_error(Code::kInvalidArgument,
                      "\"{}\" is no address: write 10.0.0.1:29500 or [2001:db8::1]:29500", text);
  };
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return bad();
  if (text.find('\0') != std::string_view::npos) return bad();  // inet_pton would stop there
  SocketAddress address;
  const std::string_view port = text.substr(colon + 1);
  const auto [end, error] = std::from_chars(port.begin(), port.end(), address.port);
  if (error != std::errc{} || end != port.end()) return bad();

  std::string host(text.substr(0, colon));
  if (!host.starts_with('[')) {
    address.family = 4;
    if (::inet_pton(AF_INET, host.c_str(), address.address.data()) != 1) return bad();
    return address;
  }
  if (!host.ends_with(']')) return bad();
  host = host.substr(1, host.size() - 2);
  if (const auto percent = host.find('%'); percent != std::string::npos) {
    const char* last = host.data() + host.size();
    const auto scope = std::from_chars(host.data() + percent + 1, last, address.scope);
    if (scope.ec != std::errc{} || scope.ptr != last) return bad();
    host.resize(percent);
  }
  address.family = 6;
  if (::inet_pton(AF_INET6, host.c_str(), address.address.data()) != 1) return bad();
  return address;
}

Result<std::vector<SocketAddress>> resolve_all(const std::string& host, std::uint16_t port,
                                               std::string_view family) {
  addrinfo hints{};
  TUTTI_ASSIGN(hints.ai_family, family_of(family));
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int rc = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (rc != 0) {
    return make_error(Code::kUnavailable, "cannot find the host \"{}\": {}", host,
                      ::gai_strerror(rc));
  }
  std::vector<SocketAddress> addresses;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next)
    addresses.push_back(from_raw(each->ai_addr).with_port(port));
  ::freeaddrinfo(found);
  return addresses;
}

Result<SocketAddress> resolve(const std::string& host, std::uint16_t port,
                              std::string_view family) {
  TUTTI_ASSIGN(const auto addresses, resolve_all(host, port, family));
  return addresses.front();
}

// ---- interfaces ----

// IFF_LOWER_UP of <linux/if.h>, which conflicts with <net/if.h>. IFF_RUNNING says the same up to a
// second later.
constexpr unsigned kLowerUp = 1U << 16;

Result<std::vector<NetInterface>> list_interfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) {
    return system_error(Code::kUnavailable, errno, "cannot list the network interfaces");
  }
  std::vector<NetInterface> interfaces;
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || (at->ifa_flags & IFF_UP) == 0) continue;
    const SocketAddress address = from_raw(at->ifa_addr);
    if (address && !is_link_local(address))
      interfaces.push_back({at->ifa_name, address, (at->ifa_flags & kLowerUp) != 0});
  }
  ::freeifaddrs(list);
  return interfaces;
}

namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const auto end = std::min(text.find(separator), text.size());
    if (end > 0) parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

/// NCCL's syntax: an optional ^, an optional =, then names.
struct NamePattern {
  explicit NamePattern(std::string_view text) {
    if (text.starts_with('^')) {
      exclude = true;
      text.remove_prefix(1);
    }
    if (text.starts_with('=')) {
      exact = true;
      text.remove_prefix(1);
    }
    names = split(text, ',');
  }
  [[nodiscard]] bool allows(std::string_view name) const {
    const bool listed = std::ranges::any_of(names, [&](std::string_view pattern) {
      return exact ? name == pattern : name.starts_with(pattern);
    });
    return listed != exclude;
  }
  bool exclude = false;
  bool exact = false;
  std::vector<std::string_view> names;
};

int kind_of(const NetInterface& interface) {
  if (interface.address.is_loopback()) return 2;
  constexpr std::string_view kVirtual[] = {"docker", "veth", "virbr", "br-", "cni", "cali", "vnet"};
  const bool made_up = std::ranges::any_of(
      kVirtual, [&](std::string_view prefix) { return interface.name.starts_with(prefix); });
  return made_up ? 1 : 0;
}

}  // namespace

Result<std::vector<NetInterface>> select_interfaces(std::span<const NetInterface> all,
                                                    const InterfaceChoice& choice) {
  TUTTI_ASSIGN(const int family, family_of(choice.family));
  const NamePattern pattern(choice.ifname);
  std::vector<NetInterface> chosen;
  std::string seen;
  for (const auto& interface : all) {
    const int its = interface.address.family == 4 ? AF_INET : AF_INET6;
    const bool named = choice.ifname.empty() || pattern.allows(interface.name);
    if (named && (family == AF_UNSPEC || family == its)) chosen.push_back(interface);
    seen += fmt::format("{}{} ({})", seen.empty() ? "" : ", ", interface.name,
                        its == AF_INET ? "AF_INET" : "AF_INET6");
  }
  if (chosen.empty()) {
    return make_error(Code::kInvalidArgument,
                      "no network interface fits SOCKET_IFNAME=\"{}\" SOCKET_FAMILY=\"{}\"; this "
                      "machine has {}",
                      choice.ifname, choice.family, seen.empty() ? "none" : seen);
  }
  // A stable order, without std::stable_sort: clang finds its buffer deprecated in libstdc++ 12.
  using Kind = std::pair<int, bool>;
  std::vector<std::tuple<Kind, std::uint8_t, std::size_t>> order;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const bool by_name = choice.ifname.empty() || pattern.exclude;
    order.emplace_back(Kind(by_name ? kind_of(chosen[i]) : 0, !chosen[i].has_link),
                       chosen[i].address.family, i);
  }
  std::ranges::sort(order);
  const Kind best = std::get<Kind>(order.front());
  std::vector<NetInterface> sorted;
  for (const auto& [kind, its_family, at] : order)
    if (kind == best) sorted.push_back(chosen[at]);
  return sorted;
}

Result<SocketAddress> choose_address(const InterfaceChoice& choice) {
  TUTTI_ASSIGN(const auto all, list_interfaces());
  TUTTI_ASSIGN(const auto chosen, select_interfaces(all, choice));
  return chosen.front().address;
}

std::uint32_t mbit_per_s(const std::string& interface) {
  std::int32_t speed = 0;  // -1 where it is unknown
  std::ifstream file(fmt::format("/sys/class/net/{}/speed", interface));
  return file >> speed && speed > 0 ? static_cast<std::uint32_t>(speed) : 0;
}

bool is_local(const SocketAddress& address) {
  if (address.is_loopback()) return true;
  const auto all = list_interfaces();
  return all && std::ranges::any_of(*all, [&](const NetInterface& interface) {
           return interface.address.family == address.family &&
                  interface.address.address == address.address;
         });
}

// ---- sockets ----

namespace {
/// What a user can do about bind(2)'s errors.
std::string_view remedy(int error) {
  switch (error) {
    case EADDRINUSE:
      return "another program has this port: end it or choose another port";
    case EADDRNOTAVAIL:
      return "it is no address of this machine: choose one of its own";
    case EACCES:
      return "ports below 1024 need root: choose a higher one";
    default:
      return "choose another address or port";
  }
}
}  // namespace

Result<Fd> listen_on(const SocketAddress& address, int backlog) {
  const RawAddress raw = to_raw(address);
  Fd fd(::socket(raw.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return system_error(Code::kUnavailable, errno, "cannot open a socket to listen on");
  if (address.port != 0) set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (::bind(fd.get(), raw.get(), raw.length) != 0 || ::listen(fd.get(), backlog) != 0) {
    return system_error(Code::kUnavailable, errno,
                        fmt::format("cannot listen on {} ({})", to_text(address), remedy(errno)));
  }
  return fd;
}

Result<Fd> accept_on(int listener) {
  const int fd = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd >= 0) return Fd(fd);
  if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
    return system_error(Code::kUnavailable, errno,
                        "cannot accept a connection (raise the limit of open files, ulimit -n)");
  }
  return Fd();  // gone again, or nothing there: both are daily life
}

Result<SocketAddress> local_address(int fd) {
  RawAddress raw;
  raw.length = sizeof raw.storage;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&raw.storage), &raw.length) != 0) {
    return system_error(Code::kInternal, errno, "getsockname failed");
  }
  return from_raw(raw.get());
}

Result<SocketAddress> remote_address(int fd) {
  RawAddress raw;
  raw.length = sizeof raw.storage;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&raw.storage), &raw.length) != 0) {
    return system_error(Code::kPeerFailed, errno, "getpeername failed");
  }
  return from_raw(raw.get());
}

namespace {

/// Waits for `events` on `fd`; kTimeout at the deadline.
Status wait_ready(int fd, short events, Deadline deadline, std::string_view doing) {
  for (;;) {
    pollfd entry{fd, events, 0};
    const int ready = ::poll(&entry, 1, deadline.poll_ms(60'000));
    if (ready > 0) return ok_status();
    if (ready < 0 && errno != EINTR) return system_error(Code::kInternal, errno, "poll failed");
    if (deadline.passed()) return make_error(Code::kTimeout, "{} timed out", doing);
  }
}

Error cannot_connect(const SocketAddress& address, int error) {
  return system_error(Code::kPeerFailed, error,
                      fmt::format("cannot connect to {}", to_text(address)));
}

}  // namespace

Result<Fd> start_connect(const SocketAddress& address) {
  const RawAddress raw = to_raw(address);
  Fd fd(::socket(raw.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) {
    return system_error(Code::kUnavailable, errno,
                        fmt::format("cannot open a socket to {}", to_text(address)));
  }
  if (::connect(fd.get(), raw.get(), raw.length) != 0 && errno != EINPROGRESS)
    return cannot_connect(address, errno);
  return fd;
}

Status finish_connect(int fd, const SocketAddress& address) {
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) return cannot_connect(address, error);
  // A port of the ephemeral range may connect to itself while nobody listens there.
  const auto local = local_address(fd);
  if (local && *local == address) return cannot_connect(address, ECONNREFUSED);
  tune_stream(fd);
  return ok_status();
}

Result<Fd> connect_once(const SocketAddress& address, Deadline deadline) {
  TUTTI_ASSIGN(Fd fd, start_connect(address));
  TUTTI_TRY(wait_ready(fd.get(), POLLOUT, deadline,
                       fmt::format("the connection to {}", to_text(address))));
  TUTTI_TRY(finish_connect(fd.get(), address));
  return fd;
}

void back_off(int attempt, Deadline deadline) {
  using std::chrono::milliseconds;
  const Nanos most =
      std::min<Nanos>(milliseconds(1000), milliseconds(10) * (1 << std::min(attempt, 7)));
  const Nanos half = most / 2;
  const Nanos jitter(random_u64() % static_cast<std::uint64_t>(half.count()));
  const Deadline awake = deadline.within(half + jitter);
  while (!awake.passed()) std::this_thread::sleep_for(awake.nap());
}

Result<Fd> connect_to(const SocketAddress& address, Deadline deadline) {
  constexpr auto kOneTry = std::chrono::seconds(5);
  for (int attempt = 0;; ++attempt) {
    auto fd = connect_once(address, deadline.within(kOneTry));
    if (fd) return fd;
    const Error& error = fd.error();
    const bool may_come = error.code == Code::kTimeout || error.code == Code::kPeerFailed;
    if (!may_come) return error;
    if (deadline.passed()) {
      return Error{Code::kTimeout,
                   fmt::format("nobody answered in time, {} attempts: {}", attempt + 1, error.what),
                   kNoRank, error.os_errno};
    }
    back_off(attempt, deadline);
  }
}

void tune_stream(int fd, Nanos silence) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(silence).count();
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 2);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, std::max(2, static_cast<int>((ms - 5000) / 2000)));
  set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(ms));
}

Status set_nonblocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
    return system_error(Code::kInternal, errno, "cannot make a descriptor non-blocking");
  }
  return ok_status();
}

Status send_all(int fd, std::span<const std::byte> data, Deadline deadline) {
  while (!data.empty()) {
    const ssize_t n = ::send(fd, data.data(), data.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      data = data.subspan(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      TUTTI_TRY(wait_ready(fd, POLLOUT, deadline, "sending to a peer"));
    } else if (errno != EINTR) {
      return system_error(Code::kPeerFailed, errno, "sending to a peer failed");
    }
  }
  return ok_status();
}

Status recv_all(int fd, std::span<std::byte> data, Deadline deadline) {
  while (!data.empty()) {
    const ssize_t n = ::recv(fd, data.data(), data.size(), MSG_DONTWAIT);
    if (n > 0) {
      data = data.subspan(static_cast<std::size_t>(n));
    } else if (n == 0) {
      return make_error(Code::kPeerFailed, "the peer ended the connection");
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      TUTTI_TRY(wait_ready(fd, POLLIN, deadline, "receiving from a peer"));
    } else if (errno != EINTR) {
      return system_error(Code::kPeerFailed, errno, "receiving from a peer failed");
    }
  }
  return ok_status();
}

std::uint64_t raise_fd_limit(std::uint64_t wanted) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  if (limit.rlim_cur < wanted && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = std::min<rlim_t>(wanted, limit.rlim_max);
    ::setrlimit(RLIMIT_NOFILE, &limit);
    ::getrlimit(RLIMIT_NOFILE, &limit);
  }
  return limit.rlim_cur;
}

}  // namespace tutti
