#include "tools/topo/rdma.hpp"

#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "src/base/result.hpp"
#include "src/base/settings.hpp"
#include "src/topo/detect/probe.hpp"
#if TUTTI_HAVE_IBVERBS
#include "src/verbs/device.hpp"
#include "transports/verbs/rails.hpp"
#endif

namespace tutti::tools {

#if TUTTI_HAVE_IBVERBS

namespace {

/// A communicator's rings and staging are some MiB for each peer.
constexpr std::int64_t kLittleLocked = std::int64_t{64} << 20;

std::string speed_text(std::uint32_t mbit_per_s) {
  if (mbit_per_s == 0) return "speed unknown";
  return mbit_per_s % 1000 == 0 ? fmt::format("{} Gbit/s", mbit_per_s / 1000)
                                : fmt::format("{} Mbit/s", mbit_per_s);
}

std::string_view link_text(verbs::LinkLayer link) {
  switch (link) {
    case verbs::LinkLayer::kInfiniBand:
      return "InfiniBand";
    case verbs::LinkLayer::kEthernet:
      return "Ethernet";
    case verbs::LinkLayer::kUnknown:
      break;
  }
  return "link unknown";
}

std::string device_text(const verbs::DeviceFacts& device) {
  std::vector<std::string> parts;
  if (!device.driver.empty()) parts.push_back("driver " + device.driver);
  parts.push_back(device.pci.empty() ? "no PCI device" : "PCI " + device.pci);
  if (device.numa >= 0) parts.push_back(fmt::format("NUMA node {}", device.numa));
  if (!device.firmware.empty()) parts.push_back("firmware " + device.firmware);
  return fmt::format("{}: {}\n  up to {} queue pairs of {} work requests, {} regions of memory\n",
                     device.name, fmt::join(parts, ", "), device.most_queue_pairs,
                     device.most_work_requests, device.most_regions);
}

std::string port_text(const verbs::PortFacts& port) {
  std::string text =
      fmt::format("  port {}: {}, {}, {}, MTU {} of {}", port.number, port.state,
                  link_text(port.link), speed_text(port.mbit_per_s), port.mtu, port.most_mtu);
  if (port.lid != 0) text += fmt::format(", LID {}", port.lid);
  text += '\n';
  const verbs::GidEntry* const best = verbs::best_gid(port);
  for (const verbs::GidEntry& entry : port.gids)
    text +=
        fmt::format("    GID {:<3} {:<28} {:<10} {}{}\n", entry.index, verbs::to_string(entry.gid),
                    verbs::name_of(entry.type), entry.interface,
                    best != nullptr && entry == *best ? "  <- the port is reached by this" : "");
  return text;
}

/// What the bridges above a PCI device do to traffic between it and a GPU; "" where nothing is to
/// be said.
std::string bridges_text(const std::string& pci) {
  if (pci.empty()) return {};
  topo::FilesProbe probe;
  const auto path = topo::acs_on_path(probe, pci);
  return path ? acs_text(*path) : path.error().what;
}

}  // namespace

std::string acs_text(const topo::AcsOnPath& path) {
  std::string text;
  if (!path.redirecting.empty())
    text = fmt::format(
        "PCI bridges {} redirect traffic between devices (ACS): a GPU is reached by way of the "
        "CPU, "
        "slowly or not at all. Switch ACS off in the firmware, or on bare metal with `setpci -s {} "
        "ECAP_ACS+6.w=0`",
        fmt::join(path.redirecting, ", "), path.redirecting.front());
  if (!path.hidden.empty())
    text += fmt::format(
        "{}whether PCI bridges {} redirect traffic between devices (ACS) is for root "
        "to read",
        text.empty() ? "" : "; ", fmt::join(path.hidden, ", "));
  return text;
}

std::string rdma_text(std::span<const verbs::DeviceFacts> devices, const RdmaSurroundings& around) {
  if (devices.empty()) return "This machine has no RDMA device: hosts are reached by TCP.\n";
  std::string text;
  const auto said = [](const auto& sentences, const std::string& name) {
    const auto found = sentences.find(name);
    return found == sentences.end() ? std::string() : found->second;
  };
  for (const verbs::DeviceFacts& device : devices) {
    text += device_text(device);
    const std::string why_not = said(around.no_dma_buf, device.name);
    text +=
        fmt::format("  GPU memory by DMA-BUF: {}\n", why_not.empty() ? "yes" : "no: " + why_not);
    if (const std::string bridges = said(around.bridges, device.name); !bridges.empty())
      text += fmt::format("  {}\n", bridges);
    for (const verbs::PortFacts& port : device.ports) text += port_text(port);
  }
  text += around.used.empty() ? "Used: no port, so hosts are reached by TCP.\n"
                              : fmt::format("Used: {}.\n", fmt::join(around.used, "; "));
  for (const std::string& why : around.left_out) text += why + ".\n";
  text +=
      around.lock_limit < 0
          ? "Memory that a process may lock: without limit.\n"
          : fmt::format("Memory that a process may lock: {} KiB{}.\n", around.lock_limit / 1024,
                        around.lock_limit < kLittleLocked
                            ? ", too little: raise it with `ulimit -l unlimited`, in containers "
                              "with --ulimit memlock=-1"
                            : "");
  text += fmt::format("nvidia-peermem is {}loaded.\n", around.nvidia_peermem ? "" : "not ");
  return text;
}

Result<std::string> rdma_of_this_machine() {
  TUTTI_ASSIGN(const auto library, verbs::Library::open());
  TUTTI_ASSIGN(const auto names, library->device_names());
  RdmaSurroundings around{.lock_limit = verbs::is_above_lock_limit() ? -1 : verbs::lock_limit(),
                          .nvidia_peermem = std::filesystem::exists("/sys/module/nvidia_peermem")};
  std::vector<verbs::DeviceFacts> devices;
  for (const std::string& name : names) {
    const auto device = library->open_device(name);
    if (device) {
      devices.push_back((*device)->facts());
      if (const Status takes = (*device)->takes_dma_buf(); !takes)
        around.no_dma_buf[name] = takes.error().what;
      around.bridges[name] = bridges_text((*device)->facts().pci);
    } else {
      around.left_out.push_back(fmt::format("{} is not used: {}", name, device.error().what));
    }
  }
  TUTTI_ASSIGN(const Settings settings, Settings::load(process_environment()));
  TUTTI_ASSIGN(
      const auto chosen,
      verbs::choose_rails(devices,
                          {.devices = settings.text("IB_HCA"),
                           .gid_index = static_cast<int>(settings.integer("IB_GID_INDEX"))},
                          &verbs::system_prefix));
  for (const verbs::Rail& rail : chosen.rails) around.used.push_back(verbs::describe(rail));
  around.left_out.insert(around.left_out.end(), chosen.left_out.begin(), chosen.left_out.end());
  return rdma_text(devices, around);
}

#else

Result<std::string> rdma_of_this_machine() {
  return make_error(Code::kUnsupported,
                    "this build has no RDMA: libibverbs' headers were missing (libibverbs-dev)");
}

#endif

}  // namespace tutti::tools
