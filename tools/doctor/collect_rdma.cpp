#include <filesystem>

#include "src/base/result.hpp"
#include "tools/doctor/collect.hpp"
#if TUTTI_HAVE_IBVERBS
#include "src/verbs/device.hpp"
#include "src/verbs/library.hpp"
#endif

namespace tutti::doctor {

namespace {

RdmaFacts facts_of_kernel(const Settings& settings) {
  RdmaFacts rdma;
  rdma.traffic_class = static_cast<int>(settings.integer("IB_TC"));
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/class/infiniband", ignored))
    rdma.kernel_devices.push_back(entry.path().filename());
  return rdma;
}

}  // namespace

#if TUTTI_HAVE_IBVERBS

namespace {

std::string_view name_of(verbs::LinkLayer link) {
  switch (link) {
    case verbs::LinkLayer::kInfiniBand:
      return "InfiniBand";
    case verbs::LinkLayer::kEthernet:
      return "Ethernet";
    case verbs::LinkLayer::kUnknown:
      break;
  }
  return "unknown";
}

RdmaPort read_port(const std::string& device, const verbs::PortFacts& port) {
  return {.device = device,
          .number = port.number,
          .active = port.active,
          .state = port.state,
          .link = std::string(name_of(port.link)),
          .mtu = port.mtu,
          .most_mtu = port.most_mtu,
          .mbit_per_s = port.mbit_per_s};
}

std::vector<std::string> absent_functions(const verbs::EntryPoints& call) {
  std::vector<std::string> absent;
  if (call.query_gid_table == nullptr) absent.emplace_back("_ibv_query_gid_table");
  if (call.reg_mr_iova2 == nullptr) absent.emplace_back("ibv_reg_mr_iova2");
  if (call.reg_dmabuf_mr == nullptr) absent.emplace_back("ibv_reg_dmabuf_mr");
  return absent;
}

}  // namespace

RdmaFacts rdma_of_this_host(const Settings& settings) {
  RdmaFacts rdma = facts_of_kernel(settings);
  const auto library = verbs::Library::open();
  if (!library) {
    rdma.state = RdmaFacts::State::kNoLibrary;
    rdma.why = library.error().what;
    return rdma;
  }
  rdma.absent_functions = absent_functions((*library)->call());
  const auto names = (*library)->device_names();
  rdma.state = names && !names->empty() ? RdmaFacts::State::kDevices : RdmaFacts::State::kNoDevice;
  if (rdma.state == RdmaFacts::State::kNoDevice) return rdma;
  std::vector<verbs::DeviceFacts> devices;
  for (const std::string& name : *names) {
    const auto device = (*library)->open_device(name);
    if (!device) {
      rdma.broken_devices.push_back(fmt::format("{} does not open: {}", name, device.error().what));
      continue;
    }
    devices.push_back((*device)->facts());
    for (const verbs::PortFacts& port : devices.back().ports)
      rdma.ports.push_back(read_port(name, port));
  }
  auto chosen =
      verbs::choose_rails(devices,
                          {.devices = settings.text("IB_HCA"),
                           .gid_index = static_cast<int>(settings.integer("IB_GID_INDEX"))},
                          &verbs::system_prefix);
  if (!chosen) {
    rdma.transport_error = chosen.error().what;
    return rdma;
  }
  rdma.rails = std::move(chosen->rails);
  rdma.left_out = std::move(chosen->left_out);
  return rdma;
}

#else

RdmaFacts rdma_of_this_host(const Settings& settings) { return facts_of_kernel(settings); }

#endif

}  // namespace tutti::doctor
