// Findings about one host.
#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "tools/doctor/findings.hpp"

namespace tutti::doctor {
namespace {

constexpr double kMostClockOffset = 1;                         // seconds
constexpr std::int64_t kLeastLocked = std::int64_t{64} << 20;  // some MiB for each peer
constexpr std::uint64_t kLeastShared = std::uint64_t{256} << 20;
constexpr std::uint64_t kLeastFiles = 1024;
constexpr std::uint32_t kLeastRdmaMtu = 4096;

class HostFindings {
 public:
  HostFindings(const HostFacts& host, bool alone) : host_(host), alone_(alone) {}

  std::vector<Finding> all() {
    clock();
    shared_memory();
    open_files();
    interface();
    firewall();
    rdma();
    return std::move(findings_);
  }

 private:
  void add(Severity severity, std::string what, std::string why, std::string remedy) {
    findings_.push_back({severity, host_.name, std::move(what), std::move(why), std::move(remedy)});
  }
  void add_at(const std::string& place, Severity severity, std::string what, std::string why,
              std::string remedy) {
    findings_.push_back({severity, fmt::format("{}, {}", host_.name, place), std::move(what),
                         std::move(why), std::move(remedy)});
  }

  void clock() {
    const double offset = host_.clock_offset_s;
    if (std::abs(offset) - host_.clock_round_trip_s / 2 <= kMostClockOffset) return;
    add(Severity::kWarning,
        fmt::format("its clock is {:.1f} s {} that of rank 0", std::abs(offset),
                    offset > 0 ? "ahead of" : "behind"),
        "Tutti does not compare clocks of hosts, but lines of their logs cannot be put in order, "
        "and other programs (TLS, Kerberos, make) may refuse such times",
        "start chrony or ntpd there, and look at `chronyc tracking` or `timedatectl`");
  }

  void shared_memory() {
    if (host_.shm_bytes == 0) {
      add(Severity::kError, "/dev/shm is no file system of its own, or cannot be read",
          "ranks of one host share memory through it",
          "mount it: `mount -t tmpfs tmpfs /dev/shm`, or set TUTTI_SHM=0, which is slower");
    } else if (host_.shm_free_bytes < kLeastShared) {
      add(Severity::kWarning,
          fmt::format("/dev/shm has {} MiB free of {} MiB", host_.shm_free_bytes >> 20,
                      host_.shm_bytes >> 20),
          "ranks of one host share memory through it: some MiB each, and what ncclMemAlloc makes",
          "remove old files there, or enlarge it: in containers --shm-size=1g, else `mount -o "
          "remount,size=1g /dev/shm`");
    }
  }

  void open_files() {
    if (host_.most_open_files >= kLeastFiles) return;
    add(Severity::kWarning,
        fmt::format("a process may open {} files at most (its soft limit is {})",
                    host_.most_open_files, host_.open_files),
        "each rank takes a socket for each peer, and rank 0 two for each rank",
        "raise the hard limit: `ulimit -Hn 65536`, in containers --ulimit nofile=65536, with "
        "systemd LimitNOFILE=65536");
  }

  void interface() {
    if (alone_) return;
    if (host_.tcp.address.starts_with("127.") || host_.tcp.address.starts_with("[::1]")) {
      add(Severity::kWarning,
          fmt::format("it listens on {} ({}), which no other host reaches", host_.tcp.name,
                      host_.tcp.address),
          "other hosts cannot connect to its ranks",
          "name the interface of the network: TUTTI_SOCKET_IFNAME=eth0 (`ip address` lists them)");
    } else if (host_.tcp.mbit_per_s > 0 && host_.tcp.mbit_per_s < 10000) {
      add(Severity::kNote,
          fmt::format("{}, which TCP takes, runs at {} Mbit/s", host_.tcp.name,
                      host_.tcp.mbit_per_s),
          "if the host has a faster network, the job does not use it",
          "name the faster interface in TUTTI_SOCKET_IFNAME, if there is one");
    }
  }

  void firewall() {
    if (alone_ || host_.firewall.empty()) return;
    const std::string ports = fmt::format("{}-{}", host_.first_port, host_.last_port);
    add(Severity::kNote, fmt::format("a firewall is active: {}", host_.firewall),
        fmt::format("ranks listen on TCP ports that the kernel takes from {} "
                    "(net.ipv4.ip_local_port_range)",
                    ports),
        host_.firewall == "ufw"
            ? std::string("let the other hosts in: `ufw allow from NETWORK/PREFIX`")
            : std::string("let the other hosts in: `firewall-cmd --permanent --zone=trusted "
                          "--add-source=NETWORK/PREFIX && firewall-cmd --reload`"));
  }

  void rdma() {
    const RdmaFacts& rdma = host_.rdma;
    if (rdma.state != RdmaFacts::State::kDevices) return no_devices();
    if (!rdma.absent_functions.empty())
      add(Severity::kNote,
          fmt::format("its libibverbs is old: it lacks {}", fmt::join(rdma.absent_functions, ", ")),
          "Tutti does without: less exact GID types, no relaxed ordering, no DMA-BUF",
          "install rdma-core 34 or later");
    for (const std::string& what : rdma.broken_devices)
      add(Severity::kWarning, what, "this device cannot carry anything",
          "look at `ls -l /dev/infiniband` and `dmesg`; containers need "
          "--device=/dev/infiniband");
    lock_limit();
    for (const RdmaPort& port : rdma.ports) check(port);
    for (const verbs::Rail& rail : rdma.rails) check(rail);
    left_out();
  }

  /// A machine without RDMA is an ordinary one, unless its user asks for RDMA.
  void no_devices() {
    const RdmaFacts& rdma = host_.rdma;
    if (rdma.kernel_devices.empty()) {
      if (asks_for_rdma())
        add(Severity::kError,
            "TUTTI_TRANSPORT=verbs asks for RDMA, and this host has no RDMA device",
            "jobs fail there", "set TUTTI_TRANSPORT=auto, which takes TCP where there is no RDMA");
      return;
    }
    const auto [what, remedy] = lack_of_library();
    add(asks_for_rdma() ? Severity::kError : Severity::kWarning,
        fmt::format("the kernel has RDMA devices ({}), and {}",
                    fmt::join(rdma.kernel_devices, ", "), what),
        "other hosts reach it by TCP only", remedy);
  }

  /// What is in the way of the devices, and what to do.
  [[nodiscard]] std::pair<std::string, std::string> lack_of_library() const {
    switch (host_.rdma.state) {
      case RdmaFacts::State::kNotBuilt:
        return {"this build of Tutti has no RDMA",
                "build it where libibverbs' headers are: `apt install libibverbs-dev` (Debian, "
                "Ubuntu), `dnf install rdma-core-devel` (Fedora, RHEL)"};
      case RdmaFacts::State::kNoLibrary:
        return {fmt::format("libibverbs cannot be used: {}", host_.rdma.why),
                "`apt install libibverbs1 ibverbs-providers` (Debian, Ubuntu), `dnf install "
                "libibverbs` (Fedora, RHEL)"};
      default:
        return {"libibverbs sees none of them",
                "install the devices' drivers for it (`apt install ibverbs-providers`); containers "
                "need --device=/dev/infiniband"};
    }
  }

  void lock_limit() {
    if (host_.lock_limit < 0 || host_.lock_limit >= kLeastLocked) return;
    add(asks_for_rdma() ? Severity::kError : Severity::kWarning,
        fmt::format("a process may lock {} KiB of memory, and RDMA needs {} MiB or more",
                    host_.lock_limit / 1024, kLeastLocked >> 20),
        "memory that an RDMA device reaches is locked: registering it fails, at once or with the "
        "first larger job",
        "`ulimit -l unlimited` before the job (memlock in /etc/security/limits.conf), in "
        "containers --ulimit memlock=-1, with systemd LimitMEMLOCK=infinity");
  }

  static std::string place_of(std::string_view device, int port) {
    return fmt::format("{} port {}", device, port);
  }

  void check(const RdmaPort& port) {
    const std::string place = place_of(port.device, port.number);
    if (!port.active) {
      add_at(place, Severity::kWarning, fmt::format("its state is {}", port.state),
             "nothing can be sent through it",
             port.link == "InfiniBand"
                 ? "check the cable, and that a subnet manager runs (`sminfo`, `ibstat`)"
                 : "check the cable, and set its network interface up (`rdma link`, `ip link`)");
    } else if (port.mtu < std::min(port.most_mtu, kLeastRdmaMtu)) {
      add_at(place, Severity::kNote,
             fmt::format("its MTU is {}, and it could have {}", port.mtu, port.most_mtu),
             "smaller packets cost more of the link and of the device",
             port.link == "InfiniBand"
                 ? "raise the MTU in the subnet manager's partition (mtu=5 is 4096)"
                 : "`ip link set INTERFACE mtu 9000` (4200 is enough for 4096) on hosts and "
                   "switches");
    }
  }

  void check(const verbs::Rail& rail) {
    if (rail.link != verbs::LinkLayer::kEthernet) return;
    const std::string place = place_of(rail.device, rail.port);
    if (host_.rdma.traffic_class == 0)
      add_at(place, Severity::kWarning, "RoCE is used with traffic class 0",
             "switches put such packets into their default queue, which drops when it is full; "
             "RoCE is slow with losses",
             "set TUTTI_IB_TC (or NCCL_IB_TC) to the class that your switches keep lossless, often "
             "106; 0 is right where the default queue is lossless");
    if (rail.type == verbs::GidType::kRoceV1)
      add_at(place, Severity::kWarning,
             fmt::format("its GID {} (index {}) is of type RoCE v1", verbs::to_string(rail.gid),
                         rail.gid_index),
             "RoCE v1 does not cross routers, and peers with RoCE v2 cannot be reached",
             "take an index of type RoCE v2 for TUTTI_IB_GID_INDEX (`tutti topo --rdma` lists "
             "them), or leave it unset");
  }

  /// Ports that the user left out, and those that are down, are not repeated here.
  void left_out() {
    const RdmaFacts& rdma = host_.rdma;
    for (const std::string& sentence : rdma.left_out) {
      if (sentence.find("its state is") != sentence.npos ||
          sentence.find("leaves it out") != sentence.npos)
        continue;
      add(Severity::kWarning, sentence, "the job has one port less",
          "give its network interface an IP address, which makes a GID of type RoCE v2 (`rdma "
          "link` names the interface, `tutti topo --rdma` shows the GIDs)");
    }
    if (!rdma.transport_error.empty())
      add(asks_for_rdma() ? Severity::kError : Severity::kWarning,
          fmt::format("RDMA cannot be used: {}", rdma.transport_error),
          asks_for_rdma() ? "TUTTI_TRANSPORT=verbs makes that an error of every job"
                          : "other hosts reach it by TCP",
          "see `tutti topo --rdma` there");
  }

  [[nodiscard]] bool asks_for_rdma() const { return transport_of(host_) == "verbs"; }

  const HostFacts& host_;
  const bool alone_;
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> findings_of(const HostFacts& host, bool alone) {
  return HostFindings(host, alone).all();
}

}  // namespace tutti::doctor
