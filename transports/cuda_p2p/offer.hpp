// What a rank tells all others of the memory it offers them, and how a step of it went.
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

/// How processes reach memory of another one. Ranks of one process share addresses.
enum class MemoryKind : std::uint8_t {
  kDescriptor,  ///< by handle: a file descriptor, passed over a unix socket
  kFabric,      ///< by handle: 64 bytes that are good on every host of an NVLink domain
  kIpc,         ///< cuMemAlloc's, for devices without handles: 64 bytes that are good on this host
};
/// Of the last two; those of the driver's FabricHandle and IpcHandle.
inline constexpr std::size_t kHandleBytes = 64;
using HandleBytes = std::array<std::byte, kHandleBytes>;

inline constexpr std::uint64_t kMostAreaBytes = std::uint64_t{1} << 40;

/// Value.
struct Offer {
  std::string problem;  ///< why this rank offers nothing: then nothing else is told
  std::string gpu;      ///< its place, for messages: "0000:07:00.0"
  std::string uuid;     ///< of the GPU, 32 hexadecimal digits
  std::uint64_t process_token = 0;
  LocalAddress address;               ///< of this rank's listener
  std::uint64_t area_bytes = 0;       ///< at most kMostAreaBytes
  std::uint64_t allocated_bytes = 0;  ///< area, probe page and what the driver rounds up
  MemoryKind kind = MemoryKind::kDescriptor;
  HandleBytes handle{};  ///< zeroes for kDescriptor
  friend bool operator==(const Offer&, const Offer&) = default;
};

/// Texts are cut off where they are too long.
Blob encode(const Offer& offer);
/// Hostile-safe: sizes, enumerators and the version are checked. The rest is compared, or handed to
/// the driver, which judges handles.
Result<Offer> decode_offer(std::span<const std::byte> bytes);

/// How a step went at one rank: "" or its problem.
Blob encode_verdict(const std::string& problem);
Result<std::string> decode_verdict(std::span<const std::byte> bytes);

/// Why these ranks, in this order, cannot reach each other's memory, as far as their offers tell:
/// the same words on every rank.
struct Obstacle {
  std::string what;       ///< "rank 2: cuMemCreate ... failed", "ranks 0 and 3 share GPU ..."
  bool expected = false;  ///< lies in how the job is laid out, rather than in something broken
};
std::optional<Obstacle> find_obstacle(std::span<const Offer> offers);

}  // namespace tutti::cuda_p2p
