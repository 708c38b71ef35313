// What each rank tells the others when a communicator is made.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/base/blob.hpp"
#include "src/base/cpus.hpp"
#include "src/cost/calibration.hpp"
#include "src/cost/measured_table.hpp"
#include "src/cost/tuner.hpp"
#include "src/cost/tuning.hpp"
#include "src/lower/program.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti {

/// Settings that all ranks must share; rank 0's count.
struct Agreement {
  std::string algorithm;  ///< TUTTI_ALGO
  std::uint64_t staging_bytes = 0;
  bool deterministic = false;
  bool measures = true;  ///< TUTTI_TUNING
  friend bool operator==(const Agreement&, const Agreement&) = default;
};

/// Value.
struct Card {
  std::uint32_t version = 0;        ///< kCardVersion; differs: the ranks run different libraries
  std::uint64_t process_token = 0;  ///< equal for ranks that are threads of one process
  std::uint64_t block_offset = 0;   ///< of the rank's block in its process's heap
  std::uint64_t block_address = 0;  ///< of the rank's block in its process
  std::uint32_t pid = 0;
  std::string host;  ///< name, for messages
  std::string boot;  ///< the boot of the machine: equal where ranks share its CPUs; "": unknown
  std::uint32_t mbit_per_s = 0;  ///< of its network interface; 0: unknown
  CpuShare cpus;                 ///< of the thread that makes the communicator
  std::string device;            ///< CommunicatorOptions::device
  Agreement agreement;
  /// What this rank read of the files that the agreed algorithm names, in their order.
  std::vector<std::uint64_t> file_hashes;
  std::string file_problem;  ///< why it did not get on with them; "": it did
  struct Address {
    std::string transport;
    Blob address;
  };
  std::vector<Address> addresses;
  std::vector<Verdict> verdicts;        ///< rank 0's, for communicators of this size; newest first
  std::vector<MeasuredRange> measured;  ///< of rank 0's table, for communicators of this size
  std::optional<Calibration> calibration;  ///< that rank 0 has: TUTTI_CALIBRATION
};
inline constexpr std::uint32_t kCardVersion = 12;
/// The newest that rank 0 knows: five placements of its ranks have fewer classes that are tried.
inline constexpr std::uint32_t kMostCardVerdicts = 1024;
/// The newest of its table: eight collectives of 24 sizes each in five arrangements have fewer.
inline constexpr std::uint32_t kMostCardRanges = 1024;

Blob encode(const Card& card);
/// Hostile-safe; `rank` is named in errors.
Result<Card> decode_card(std::span<const std::byte> bytes, Rank rank);

/// Whether all ranks read the same files, which TUTTI_ALGO names as `paths`. On all ranks the same
/// error otherwise: it names the file and the ranks.
Status check_files(std::span<const Card> cards, std::span<const std::string> paths);

/// Whether all ranks use GPUs, or none does. On all ranks the same error otherwise: it names both.
Status check_devices(std::span<const Card> cards);

/// The class of all calls of ranks with these cards, but for their collective and size.
CallClass class_of_calls(std::span<const Card> cards, const lower::Placement& placement);

}  // namespace tutti
