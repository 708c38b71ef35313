#include "tests/hosts/tun_device.hpp"

#include <cerrno>
#include <cstring>

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "src/base/result.hpp"
#include "tests/hosts/delay_line.hpp"

namespace tutti::testing {
namespace {

Result<Fd> open_file(const std::string& path, int flags) {
  Fd file(::open(path.c_str(), flags | O_CLOEXEC));
  if (!file) return system_error(Code::kUnavailable, errno, "cannot open " + path);
  return file;
}

/// The calling thread is in a namespace for as long as this lives.
class InNetwork {
 public:
  static Result<InNetwork> of(const std::string& host) {
    TUTTI_ASSIGN(Fd own, open_file("/proc/thread-self/ns/net", O_RDONLY));
    TUTTI_ASSIGN(const Fd there, open_file("/var/run/netns/" + host, O_RDONLY));
    if (::setns(there.get(), CLONE_NEWNET) != 0)
      return system_error(Code::kUnavailable, errno, "cannot enter the network namespace " + host);
    return InNetwork(std::move(own));
  }
  InNetwork(InNetwork&&) = default;
  InNetwork& operator=(InNetwork&&) = delete;
  ~InNetwork() {
    if (own_) ::setns(own_.get(), CLONE_NEWNET);
  }

 private:
  explicit InNetwork(Fd own) : own_(std::move(own)) {}
  Fd own_;
};

ifreq request_for(const std::string& device) {
  ifreq request{};
  std::strncpy(request.ifr_name, device.c_str(), IFNAMSIZ - 1);
  return request;
}

Result<sockaddr> ipv4(const std::string& text) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  if (::inet_pton(AF_INET, text.c_str(), &address.sin_addr) != 1)
    return make_error(Code::kInvalidArgument, "`{}` is no IPv4 address", text);
  sockaddr general{};
  static_assert(sizeof general == sizeof address);
  std::memcpy(&general, &address, sizeof general);
  return general;
}

Result<Fd> make_device(const std::string& device) {
  Fd tun(::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!tun) return system_error(Code::kUnsupported, errno, "cannot open /dev/net/tun");
  ifreq request = request_for(device);
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  if (::ioctl(tun.get(), TUNSETIFF, &request) != 0) {
    const Code code = errno == EPERM ? Code::kUnsupported : Code::kUnavailable;
    return system_error(code, errno, "cannot make the TUN device " + device);
  }
  return tun;
}

/// Address, largest packet, and up.
Status configure(const TunOptions& options) {
  const Fd control(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!control) return system_error(Code::kUnavailable, errno, "cannot open a socket");
  const auto set = [&](unsigned long what, const ifreq& request, const char* name) -> Status {
    if (::ioctl(control.get(), what, &request) == 0) return ok_status();
    return system_error(Code::kUnavailable, errno,
                        fmt::format("cannot set the {} of {}", name, options.device));
  };
  ifreq request = request_for(options.device);
  request.ifr_mtu = kLargestPacket;
  TUTTI_TRY(set(SIOCSIFMTU, request, "largest packet"));
  TUTTI_ASSIGN(request.ifr_addr, ipv4(options.address));
  TUTTI_TRY(set(SIOCSIFADDR, request, "address"));
  TUTTI_ASSIGN(request.ifr_netmask, ipv4("255.255.255.0"));
  TUTTI_TRY(set(SIOCSIFNETMASK, request, "network mask"));
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  return set(SIOCSIFFLAGS, request, "state");
}

}  // namespace

Result<Fd> open_tun(const TunOptions& options) {
  if (options.device.empty() || options.device.size() >= IFNAMSIZ)
    return make_error(Code::kInvalidArgument,
                      "`{}` cannot name a device: it must have 1 to {} characters", options.device,
                      IFNAMSIZ - 1);
  TUTTI_ASSIGN(const InNetwork in_network, InNetwork::of(options.host));
  TUTTI_ASSIGN(Fd tun, make_device(options.device));
  TUTTI_TRY(configure(options));
  return tun;
}

}  // namespace tutti::testing
