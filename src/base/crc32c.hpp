// CRC32C (Castagnoli), as iSCSI and many disks use it: finds every burst of up to 32 wrong bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tutti {

/// Of `bytes` after what gave `so_far`; 0 to begin with. By the CPU's own instruction where it has
/// one.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t so_far = 0);

/// The same by a table, for CPUs without the instruction.
std::uint32_t crc32c_by_table(std::span<const std::byte> bytes, std::uint32_t so_far = 0);

}  // namespace tutti
