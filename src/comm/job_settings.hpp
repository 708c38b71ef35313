// What rank 0 decides for all ranks when a communicator is made.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "src/base/blob.hpp"
#include "src/cost/calibration.hpp"
#include "src/cost/measured_table.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti {

/// Settings that must be equal on all ranks. Value.
struct Agreement {
  std::string algorithm;  ///< TUTTI_ALGO
  std::uint64_t staging_bytes = 0;
  bool deterministic = false;
  bool measures = true;    ///< TUTTI_TUNING
  std::string compress;    ///< TUTTI_COMPRESS
  bool checksum = false;   ///< TUTTI_CHECKSUM
  std::string in_network;  ///< TUTTI_INNETWORK
  friend bool operator==(const Agreement&, const Agreement&) = default;
};

/// Rank 0 broadcasts it before the ranks exchange anything else. Value.
struct JobSettings {
  Agreement agreement;
  // What rank 0 knows about communicators of this size.
  MeasuredTable verdicts;                  ///< of trials
  MeasuredTable table;                     ///< of `tutti tune`
  std::optional<Calibration> calibration;  ///< TUTTI_CALIBRATION
};
/// Most ranges of each table in a message. Eight collectives of 24 sizes each in five arrangements
/// have fewer.
inline constexpr std::uint32_t kMostSentRanges = 1024;

Blob encode(const JobSettings& settings);
/// Accepts any bytes; errors name `rank`, the sender. Algorithms' names are not looked up here.
Result<JobSettings> decode_job_settings(std::span<const std::byte> bytes, Rank rank);

}  // namespace tutti
