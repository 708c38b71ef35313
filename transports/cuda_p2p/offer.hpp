// What a rank tells all others about the memory that it offers, and how each step went.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "src/base/blob.hpp"
#include "src/wire/local_address.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti::cuda_p2p {

/// How a process reaches another process's memory. Ranks of one process share addresses.
enum class MemoryKind : std::uint8_t {
  kDescriptor,  ///< by handle: a file descriptor, passed over a unix socket
  kFabric,      ///< by handle: 64 bytes, valid on every host of an NVLink domain
  kIpc,         ///< cuMemAlloc's memory, on devices without handles: 64 bytes, valid on this host
};
/// Size of the last two: of the driver's FabricHandle and IpcHandle.
inline constexpr std::size_t kHandleBytes = 64;
using HandleBytes = std::array<std::byte, kHandleBytes>;

inline constexpr std::uint64_t kMostAreaBytes = std::uint64_t{1} << 40;

/// Value.
struct Offer {
  std::string problem;  ///< why this rank offers nothing; the other fields are empty then
  std::string gpu;      ///< the GPU's bus id, for messages: "0000:07:00.0"
  std::string uuid;     ///< of the GPU, 32 hexadecimal digits
  std::uint64_t process_token = 0;
  LocalAddress address;               ///< address of this rank's listener
  std::uint64_t area_bytes = 0;       ///< at most kMostAreaBytes
  std::uint64_t allocated_bytes = 0;  ///< area and probe page, as rounded up by the driver
  MemoryKind kind = MemoryKind::kDescriptor;
  HandleBytes handle{};  ///< zeros for kDescriptor
  friend bool operator==(const Offer&, const Offer&) = default;
};

/// Texts that are too long are cut.
Blob encode(const Offer& offer);
/// Accepts hostile bytes: checks sizes, enumerators and the version. Other fields are only
/// compared, or passed to the driver, which validates handles.
Result<Offer> decode_offer(std::span<const std::byte> bytes);

/// How a step went on one rank: "" or its problem.
Blob encode_verdict(const std::string& problem);
Result<std::string> decode_verdict(std::span<const std::byte> bytes);

/// Why these ranks, in this order, cannot reach each other's memory, as far as their offers show.
/// The same words on every rank.
struct Obstacle {
  std::string what;       ///< "rank 2: cuMemCreate ... failed", "ranks 0 and 3 share GPU ..."
  bool expected = false;  ///< follows from the job's layout; nothing is broken
};
std::optional<Obstacle> find_obstacle(std::span<const Offer> offers);

}  // namespace tutti::cuda_p2p
