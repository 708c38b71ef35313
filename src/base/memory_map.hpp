// Which memory of this process is readable and writable. TUTTI_CHECK uses it to return an error
// instead of crashing with SIGSEGV.
//
// It reads /proc/self/maps. Unlike mincore(2) that shows permissions, and unlike touching memory it
// changes nothing. It costs tens of microseconds and grows with the number of mappings. It does not
// detect a file that is shorter than its mapping.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tutti/error.hpp"

namespace tutti {

enum class Access : std::uint8_t { kRead, kWrite };

/// Value: a snapshot. Another thread may unmap memory right afterwards.
class MemoryMap {
 public:
  /// kUnavailable where there is no /proc.
  static Result<MemoryMap> of_this_process();
  /// Parses the text of a /proc/PID/maps.
  static Result<MemoryMap> parse(std::string_view maps);

  /// The first address of [data, data + bytes) that forbids `access`; nullopt if none does.
  [[nodiscard]] std::optional<std::uintptr_t> first_without(Access access, const void* data,
                                                            std::size_t bytes) const;

 private:
  struct Region {
    std::uintptr_t begin = 0, end = 0;
    bool readable = false, writable = false;
  };
  static std::optional<Region> parse_line(std::string_view line);

  std::vector<Region> regions_;  ///< ascending
};

}  // namespace tutti
