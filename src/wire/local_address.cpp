#include "src/wire/local_address.hpp"

#include <algorithm>
#include <cerrno>
#include <fstream>

#include <sys/stat.h>
#include <unistd.h>

#include "src/base/bytes.hpp"
#include "src/base/result.hpp"
#include "src/wire/crypto.hpp"

namespace tutti {
namespace {

constexpr std::uint8_t kVersion = 1;
constexpr std::size_t kLongestName = 64;
constexpr std::size_t kLongestHostId = 255;

Result<std::uint64_t> namespace_inode(const char* path) {
  struct stat status{};
  if (::stat(path, &status) != 0) return system_error(Code::kUnavailable, errno, path);
  return static_cast<std::uint64_t>(status.st_ino);
}

}  // namespace

Result<LocalAddress> own_local_address(const std::string& host_id) {
  LocalAddress address;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id") >> std::ws, address.boot_id);
  if (address.boot_id.empty() || host_id.size() > kLongestHostId)
    return make_error(Code::kUnavailable,
                      "sharing memory needs /proc/sys/kernel/random/boot_id and a host id of at "
                      "most {} characters (got {})",
                      kLongestHostId, host_id.size());
  address.host_id = host_id;
  TUTTI_ASSIGN(address.network_namespace, namespace_inode("/proc/self/ns/net"));
  TUTTI_ASSIGN(address.user_namespace, namespace_inode("/proc/self/ns/user"));
  address.uid = ::geteuid();
  address.socket_name = fmt::format("tutti-{:016x}{:016x}", random_u64(), random_u64());
  return address;
}

Blob encode(const LocalAddress& address) {
  Blob blob;
  blob.reserve(512);
  ByteWriter(blob)
      .put(kVersion)
      .sized(as_bytes(address.boot_id))
      .sized(as_bytes(address.host_id))
      .put(address.network_namespace)
      .put(address.user_namespace)
      .put(address.uid)
      .sized(as_bytes(address.socket_name));
  return blob;
}

Result<LocalAddress> decode_local_address(std::span<const std::byte> blob) {
  ByteReader in(blob);
  LocalAddress address;
  const auto version = in.get<std::uint8_t>();
  address.boot_id = in.text(kLongestName);
  address.host_id = in.text(kLongestHostId);
  address.network_namespace = in.get<std::uint64_t>();
  address.user_namespace = in.get<std::uint64_t>();
  address.uid = in.get<std::uint32_t>();
  address.socket_name = in.text(kLongestName);
  if (!in.complete() || version != kVersion || address.boot_id.empty() ||
      !address.socket_name.starts_with("tutti-"))
    return make_error(Code::kInvalidArgument, "a malformed local address of {} bytes", blob.size());
  return address;
}

bool on_one_host(const LocalAddress& a, const LocalAddress& b) {
  if (a.network_namespace != b.network_namespace || a.uid != b.uid) return false;
  if (!a.host_id.empty() || !b.host_id.empty()) return a.host_id == b.host_id;
  return a.boot_id == b.boot_id && a.user_namespace == b.user_namespace;
}

}  // namespace tutti
