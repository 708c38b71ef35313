// Facts of hosts that have nothing wrong, for tests to spoil.
#pragma once

#include <string>

#include "tools/doctor/facts.hpp"

namespace tutti::doctor {

inline HostFacts good_host(const std::string& name, int rank = 0) {
  HostFacts host;
  host.rank = rank;
  host.name = name;
  host.identity = name;
  host.version = "0.1.0";
  host.kernel = "6.1.0";
  host.shm_bytes = host.shm_free_bytes = std::uint64_t{8} << 30;
  host.open_files = host.most_open_files = 65536;
  host.tcp = {.name = "eth0",
              .address = "10.0.0." + std::to_string(rank + 1) + ":40000",
              .mbit_per_s = 100000,
              .mtu = 9000};
  host.first_port = 32768;
  host.last_port = 60999;
  host.rdma.state = RdmaFacts::State::kNoDevice;
  return host;
}

/// A RoCE v2 port at 10.0.`subnet`.`host`/24.
inline verbs::Rail rail(const std::string& device, std::uint8_t subnet, std::uint8_t host) {
  return {.device = device,
          .gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, subnet, host},
          .prefix_bits = 120,
          .mtu = 4096,
          .mbit_per_s = 100000};
}

inline HostFacts good_rdma_host(const std::string& name, int rank = 0) {
  HostFacts host = good_host(name, rank);
  host.rdma.state = RdmaFacts::State::kDevices;
  host.rdma.traffic_class = 106;
  host.rdma.ports = {{.device = "mlx5_0",
                      .active = true,
                      .state = "ACTIVE",
                      .link = "Ethernet",
                      .mtu = 4096,
                      .most_mtu = 4096,
                      .mbit_per_s = 100000}};
  host.rdma.rails = {rail("mlx5_0", 0, static_cast<std::uint8_t>(rank + 1))};
  return host;
}

inline LinkFacts good_link(double latency_us = 20, double mb_s = 1000) {
  return {.connected = true, .latency_us = latency_us, .there_mb_s = mb_s, .back_mb_s = mb_s};
}

inline PairFacts good_pair(std::size_t first = 0, std::size_t second = 1) {
  PairFacts pair;
  pair.pair = {first, second};
  pair.of_first.emplace().tcp = good_link();
  pair.of_second.emplace().tcp.connected = true;
  return pair;
}

}  // namespace tutti::doctor
