// What is known of the hosts of a job and of pairs of them. Values: what the ranks send to rank 0,
// and what findings are derived from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/base/blob.hpp"
#include "transports/verbs/rails.hpp"

namespace tutti::doctor {

/// A port of an RDMA device.
struct RdmaPort {
  std::string device;  ///< "mlx5_0"
  int number = 1;
  bool active = false;
  std::string state;      ///< "ACTIVE"
  std::string link;       ///< "InfiniBand", "Ethernet", "unknown"
  std::uint32_t mtu = 0;  ///< bytes, as it is now
  std::uint32_t most_mtu = 0;
  std::uint32_t mbit_per_s = 0;  ///< 0: not known
  friend bool operator==(const RdmaPort&, const RdmaPort&) = default;
};

struct RdmaFacts {
  enum class State : std::uint8_t { kNotBuilt, kNoLibrary, kNoDevice, kDevices };
  State state = State::kNotBuilt;
  std::string why{};                            ///< kNoLibrary: what is missing
  std::vector<std::string> kernel_devices{};    ///< by /sys/class/infiniband, without the library
  std::vector<std::string> absent_functions{};  ///< that older versions of libibverbs lack
  std::vector<std::string> broken_devices{};    ///< sentences: devices that do not open
  std::vector<RdmaPort> ports{};
  std::vector<verbs::Rail> rails{};     ///< the ports that a job would use
  std::vector<std::string> left_out{};  ///< sentences: why others are not used
  std::string transport_error{};        ///< why RDMA cannot be used though there are devices
  int traffic_class = 0;                ///< TUTTI_IB_TC
  friend bool operator==(const RdmaFacts&, const RdmaFacts&) = default;
};

/// The network interface that a job would use for TCP.
struct TcpInterface {
  std::string name;
  std::string address;           ///< "10.0.0.1:40123": where this rank listens
  std::uint32_t mbit_per_s = 0;  ///< 0: its driver tells no speed
  std::uint32_t mtu = 0;         ///< bytes; 0: not known
  friend bool operator==(const TcpInterface&, const TcpInterface&) = default;
};

struct HostFacts {
  int rank = 0;          ///< that answers for this host
  std::string name;      ///< as the host names itself
  std::string identity;  ///< equal for ranks of one host
  std::string version;   ///< "tutti 0.1.0 (NCCL API 2.28.9)"
  std::string kernel;
  std::int64_t lock_limit = -1;  ///< bytes that this process may lock; -1: no limit
  std::uint64_t shm_bytes = 0;   ///< of /dev/shm; 0: there is none
  std::uint64_t shm_free_bytes = 0;
  std::uint64_t open_files = 0;       ///< soft limit
  std::uint64_t most_open_files = 0;  ///< hard limit
  TcpInterface tcp;
  int first_port = 0, last_port = 0;            ///< from which the kernel takes ports; 0: not known
  std::string firewall;                         ///< "firewalld", "ufw"; "": none that is known
  std::map<std::string, std::string> settings;  ///< TUTTI_* and NCCL_*, without secrets
  RdmaFacts rdma;

  // How other ranks reach this one.
  std::uint64_t token = 0;  ///< of the process
  Blob tcp_address{};       ///< Transport::address()
  Blob rdma_address{};      ///< empty: there is no RDMA

  // Filled in by rank 0.
  double clock_offset_s = 0;      ///< its clock minus that of rank 0
  double clock_round_trip_s = 0;  ///< the offset is right within half of it

  friend bool operator==(const HostFacts&, const HostFacts&) = default;
};

/// What became of a connection to the other host's address.
struct Reach {
  enum class Outcome : std::uint8_t {
    kReached,
    kRefused,   ///< the host answers, and nobody may connect there
    kTimedOut,  ///< no answer at all
    kNoRoute,   ///< the network or a router says that there is no way
    kFailed,    ///< another error
  };
  Outcome outcome = Outcome::kReached;
  std::string text{};  ///< the error in words
  friend bool operator==(const Reach&, const Reach&) = default;
};

/// What was measured over a transport, by the first host of the pair.
struct LinkFacts {
  bool connected = false;
  std::string error{};       ///< why not, or why measuring ended early
  bool large_hangs = false;  ///< small messages arrive, large ones do not
  double latency_us = 0;     ///< median round trip of 8 bytes; 0: not measured
  double there_mb_s = 0;     ///< first host to second, 10^6 bytes a second; 0: not measured
  double back_mb_s = 0;
  friend bool operator==(const LinkFacts&, const LinkFacts&) = default;
};

/// What one host of a pair found out.
struct PairReport {
  Reach reach{};  ///< of the other host
  LinkFacts tcp{};
  std::optional<LinkFacts> rdma{};  ///< none: one side has no RDMA, or no ports meet
  friend bool operator==(const PairReport&, const PairReport&) = default;
};

/// Indices of hosts; `first` < `second`.
struct Pair {
  std::size_t first = 0, second = 0;
  friend auto operator<=>(const Pair&, const Pair&) = default;
};

struct PairFacts {
  Pair pair;
  std::optional<PairReport> of_first{}, of_second{};  ///< none: that host did not answer
};

/// A rank that did not come, or stopped answering.
struct Silent {
  int rank = 0;
  std::string name;  ///< of its host where known, else "rank 3"
  std::string why;   ///< a clause: "it did not come within 30 s"
};

/// All that is known once the checks are over.
struct JobFacts {
  std::vector<HostFacts> hosts;
  std::vector<PairFacts> pairs;
  std::vector<Silent> silent;
  std::size_t possible_pairs = 0;
  bool sampled = false;  ///< `pairs` are a ring and a random sample
};

/// TUTTI_TRANSPORT as the host has it.
inline std::string transport_of(const HostFacts& host) {
  const auto asked = host.settings.find("TUTTI_TRANSPORT");
  return asked == host.settings.end() ? "tcp" : asked->second;
}

/// Of both directions.
inline double least_mb_s(const LinkFacts& link) {
  return link.there_mb_s < link.back_mb_s ? link.there_mb_s : link.back_mb_s;
}

}  // namespace tutti::doctor
