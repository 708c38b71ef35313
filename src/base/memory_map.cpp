#include "src/base/memory_map.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string>

#include <fcntl.h>
#include <unistd.h>

#include "src/base/fd.hpp"
#include "src/base/result.hpp"

namespace tutti {
namespace {

constexpr const char* kMaps = "/proc/self/maps";

Error cannot_read() {
  return system_error(Code::kUnavailable, errno,
                      fmt::format("TUTTI_CHECK=1 tests buffers by {}, which cannot be read: mount "
                                  "/proc, or unset TUTTI_CHECK",
                                  kMaps));
}

Result<std::string> read_maps() {
  const Fd file(::open(kMaps, O_RDONLY | O_CLOEXEC));
  if (!file) return cannot_read();
  constexpr std::size_t kStep = std::size_t{64} << 10;
  std::string text;
  for (std::size_t length = 0;;) {
    text.resize(length + kStep);
    const ssize_t got = ::read(file.get(), text.data() + length, kStep);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return cannot_read();
    length += static_cast<std::size_t>(got);
    if (got > 0) continue;
    text.resize(length);
    return text;
  }
}

}  // namespace

/// "7f0c5a000000-7f0c5a021000 rw-p 00000000 00:00 0    [heap]"
std::optional<MemoryMap::Region> MemoryMap::parse_line(std::string_view line) {
  constexpr int kHexadecimal = 16;
  Region region;
  const char* const end = line.data() + line.size();
  const auto first = std::from_chars(line.data(), end, region.begin, kHexadecimal);
  if (first.ec != std::errc{} || first.ptr == end || *first.ptr != '-') return std::nullopt;
  const auto second = std::from_chars(first.ptr + 1, end, region.end, kHexadecimal);
  if (second.ec != std::errc{} || end - second.ptr < 3 || *second.ptr != ' ') return std::nullopt;
  region.readable = second.ptr[1] == 'r';
  region.writable = second.ptr[2] == 'w';
  return region;
}

Result<MemoryMap> MemoryMap::parse(std::string_view maps) {
  MemoryMap map;
  while (!maps.empty()) {
    const std::size_t end = std::min(maps.find('\n'), maps.size());
    const std::string_view line = maps.substr(0, end);
    maps.remove_prefix(std::min(end + 1, maps.size()));
    const auto region = parse_line(line);
    if (!region)
      return make_error(Code::kInternal, "{} has a line that is no mapping: '{}'", kMaps, line);
    map.regions_.push_back(*region);
  }
  return map;
}

Result<MemoryMap> MemoryMap::of_this_process() {
  TUTTI_ASSIGN(const std::string maps, read_maps());
  return parse(maps);
}

std::optional<std::uintptr_t> MemoryMap::first_without(Access access, const void* data,
                                                       std::size_t bytes) const {
  auto position = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t end = position + std::min(bytes, UINTPTR_MAX - position);
  if (position == end) return std::nullopt;
  for (const Region& region : regions_) {
    if (region.end <= position) continue;
    const bool allowed = access == Access::kRead ? region.readable : region.writable;
    if (region.begin > position || !allowed) return position;
    position = region.end;
    if (position >= end) return std::nullopt;
  }
  return position;
}

}  // namespace tutti
