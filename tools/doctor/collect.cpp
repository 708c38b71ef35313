#include "tools/doctor/collect.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <sstream>

#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "src/base/result.hpp"
#include "src/base/whole_file.hpp"
#include "src/wire/local_address.hpp"
#include "src/wire/net.hpp"

namespace tutti::doctor {
namespace {

constexpr std::size_t kLongestSmallFile = 4096;
constexpr std::size_t kLongestSetting = 256;

std::uint64_t number_in(const std::string& path) {
  const auto text = read_file(path, kLongestSmallFile);
  std::uint64_t value = 0;
  if (text) std::from_chars(text->data(), text->data() + text->size(), value);
  return value;
}

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name[0] == 0 ? "this host" : name.data();
}

std::string kernel_text() {
  utsname names{};
  return ::uname(&names) == 0 ? fmt::format("{} {}", names.release, names.machine) : "unknown";
}

/// Equal for processes that the library takes to be on one host.
Result<std::string> identity_of(const Settings& settings) {
  TUTTI_ASSIGN(const LocalAddress own, own_local_address(settings.text("HOSTID")));
  return fmt::format("{}/{:x}", own.host_id.empty() ? own.boot_id : own.host_id,
                     own.network_namespace);
}

/// Whether the limit of locked memory does not count: CAP_IPC_LOCK, where the kernel looks for it.
bool may_lock_all() {
  constexpr std::uint64_t kIpcLock = 1U << 14U;
  const auto users = read_file("/proc/self/uid_map", kLongestSmallFile);
  const auto status = read_file("/proc/self/status", std::size_t{64} << 10);
  if (!users || !status || users->find("4294967295") == users->npos) return false;
  constexpr std::string_view kField = "CapEff:\t";
  const std::size_t at = status->find(kField);
  if (at == status->npos) return false;
  std::uint64_t capabilities = 0;
  std::from_chars(status->data() + at + kField.size(), status->data() + status->size(),
                  capabilities, 16);
  return (capabilities & kIpcLock) != 0;
}

void read_limits(HostFacts& host) {
  rlimit limit{};
  if (!may_lock_all() && ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 &&
      limit.rlim_cur != RLIM_INFINITY)
    host.lock_limit = static_cast<std::int64_t>(std::min<rlim_t>(limit.rlim_cur, INT64_MAX));
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    host.open_files = limit.rlim_cur;
    host.most_open_files = limit.rlim_max;
  }
}

void read_shared_memory(HostFacts& host) {
  struct statvfs shm{};
  if (::statvfs("/dev/shm", &shm) != 0) return;
  host.shm_bytes = std::uint64_t{shm.f_frsize} * shm.f_blocks;
  host.shm_free_bytes = std::uint64_t{shm.f_frsize} * shm.f_bavail;
}

void read_ports(HostFacts& host) {
  const auto range = read_file("/proc/sys/net/ipv4/ip_local_port_range", kLongestSmallFile);
  if (range) std::istringstream(*range) >> host.first_port >> host.last_port;
}

/// Only those whose state any user can see.
std::string firewall_name() {
  std::error_code ignored;
  if (std::filesystem::exists("/run/firewalld", ignored)) return "firewalld";
  const auto ufw = read_file("/etc/ufw/ufw.conf", std::size_t{64} << 10);
  return ufw && ufw->find("\nENABLED=yes") != ufw->npos ? "ufw" : "";
}

bool is_secret(std::string_view name) {
  return std::ranges::any_of(all_settings(), [&](const SettingInfo& info) {
    return info.secret && name.ends_with(info.name);
  });
}

std::map<std::string, std::string> settings_here() {
  const Environment environment = process_environment();
  std::map<std::string, std::string> settings;
  for (const std::string& name : process_environment_names()) {
    if (!name.starts_with("TUTTI_") && !name.starts_with("NCCL_")) continue;
    if (name.size() > kLongestSetting || is_secret(name)) continue;
    const auto value = environment(name);
    if (value && !value->empty()) settings[name] = value->substr(0, kLongestSetting);
  }
  return settings;
}

Result<TcpInterface> interface_of(const Settings& settings, const std::string& address) {
  TUTTI_ASSIGN(const auto all, list_interfaces());
  TUTTI_ASSIGN(const auto chosen, select_interfaces(all, {settings.text("SOCKET_IFNAME"),
                                                          settings.text("SOCKET_FAMILY")}));
  const std::string& name = chosen.front().name;
  return TcpInterface{
      .name = name,
      .address = address,
      .mbit_per_s = mbit_per_s(name),
      .mtu = static_cast<std::uint32_t>(number_in(fmt::format("/sys/class/net/{}/mtu", name)))};
}

}  // namespace

Result<HostFacts> facts_of_this_host(const Settings& settings, const std::string& version,
                                     const std::string& address) {
  HostFacts host;
  host.name = host_name();
  TUTTI_ASSIGN(host.identity, identity_of(settings));
  host.version = version;
  host.kernel = kernel_text();
  read_limits(host);
  read_shared_memory(host);
  TUTTI_ASSIGN(host.tcp, interface_of(settings, address));
  read_ports(host);
  host.firewall = firewall_name();
  host.settings = settings_here();
  return host;
}

}  // namespace tutti::doctor
