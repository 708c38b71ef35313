// Which memory of this process may be read, and which written: for TUTTI_CHECK, which would rather
// say so than end in a SIGSEGV.
//
// The method is to read /proc/self/maps: unlike mincore(2) it knows what is allowed as well as what
// is mapped, and unlike touching the memory it changes nothing. It costs tens of microseconds and
// grows with the number of mappings. It does not see the end of a file that is shorter than its
// mapping.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tutti/error.hpp"

namespace tutti {

enum class Access : std::uint8_t { kRead, kWrite };

/// Value: what held when it was made. Another thread may unmap memory the moment after.
class MemoryMap {
 public:
  /// kUnavailable where there is no /proc.
  static Result<MemoryMap> of_this_process();
  /// From the text of a /proc/PID/maps.
  static Result<MemoryMap> parse(std::string_view maps);

  /// The first address of [data, data + bytes) that does not allow `access`; nullopt when all do.
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
