#include "src/verbs/facts.hpp"

#include <algorithm>
#include <string_view>

#include <arpa/inet.h>

namespace tutti::verbs {

std::string to_string(const Gid& gid) {
  char text[INET6_ADDRSTRLEN] = "";
  if (is_ipv4(gid))
    ::inet_ntop(AF_INET, gid.data() + 12, text, sizeof text);
  else
    ::inet_ntop(AF_INET6, gid.data(), text, sizeof text);
  return text;
}

std::string_view name_of(GidType type) {
  switch (type) {
    case GidType::kInfiniBand:
      return "InfiniBand";
    case GidType::kRoceV1:
      return "RoCE v1";
    case GidType::kRoceV2:
      return "RoCE v2";
  }
  return "unknown";
}

bool is_ipv4(const Gid& gid) {
  constexpr Gid kPrefix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::equal(gid.begin(), gid.begin() + 12, kPrefix.begin());
}

bool is_link_local(const Gid& gid) { return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80; }

bool is_zero(const Gid& gid) {
  return std::ranges::all_of(gid, [](std::uint8_t byte) { return byte == 0; });
}

}  // namespace tutti::verbs
