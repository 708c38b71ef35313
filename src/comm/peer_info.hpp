// What each rank tells the others about itself when a communicator is made.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/base/blob.hpp"
#include "src/base/cpus.hpp"
#include "src/cost/measured_table.hpp"
#include "src/lower/program.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti {

/// Value.
struct PeerInfo {
  std::uint64_t process_token = 0;  ///< equal for ranks that are threads of one process
  std::uint64_t block_offset = 0;   ///< of the rank's block in its process's heap
  std::uint64_t block_address = 0;  ///< of the rank's block in its process
  std::uint32_t pid = 0;
  std::string host;  ///< name, for messages
  std::string boot;  ///< id of the machine's boot: equal where ranks share its CPUs; "": unknown
  std::uint32_t mbit_per_s = 0;  ///< of its network interface; 0: unknown
  CpuShare cpus;                 ///< of the thread that makes the communicator
  std::string device;            ///< CommunicatorOptions::device
  bool aggregates = false;       ///< it has an Aggregation
  /// Of the files that the agreed algorithm names, in their order.
  std::vector<std::uint64_t> file_hashes;
  std::string file_problem;  ///< why this rank cannot use its files; "": it can
  struct Address {
    std::string transport;
    Blob address;
  };
  std::vector<Address> addresses;
};

Blob encode(const PeerInfo& info);
/// Accepts any bytes; errors name `rank`, the sender.
Result<PeerInfo> decode_peer_info(std::span<const std::byte> bytes, Rank rank);

/// Whether all ranks read the same files, which TUTTI_ALGO names as `paths`. Otherwise the same
/// error on all ranks, which names the file and the ranks.
Status check_files(std::span<const PeerInfo> peers, std::span<const std::string> paths);

/// Whether all ranks use GPUs, or none does. Otherwise the same error on all ranks, which names
/// both kinds.
Status check_devices(std::span<const PeerInfo> peers);

/// Of these ranks, without topology.
Arrangement arrangement_of(std::span<const PeerInfo> peers, const lower::Placement& placement);

}  // namespace tutti
