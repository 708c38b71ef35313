#include "src/builtin/builtin.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "algorithms/algorithms.hpp"
#include "algorithms/forest.hpp"
#include "src/base/log.hpp"
#include "src/base/result.hpp"
#include "src/cost/asked.hpp"
#include "src/cuda/driver.hpp"
#include "src/exec/cuda/device_code.hpp"
#include "src/plugin/collnet_plugin.hpp"
#include "src/plugin/net_plugin.hpp"
#include "src/topo/detect/probe.hpp"
#include "src/topo/model/affinity.hpp"
#include "src/transport/registered_heap.hpp"
#include "src/wire/service.hpp"
#include "transports/collnet/collnet_aggregation.hpp"
#include "transports/cuda_p2p/cuda_p2p.hpp"
#include "transports/nccl_net/nccl_net_transport.hpp"
#include "transports/shm/shm_transport.hpp"
#include "transports/switch/switch_aggregation.hpp"
#include "transports/tcp/tcp_transport.hpp"
#if TUTTI_HAVE_UCX
#include "transports/ucx/ucx_transport.hpp"
#endif
#if TUTTI_HAVE_IBVERBS
#include "transports/verbs/verbs_transport.hpp"
#endif

namespace tutti {

namespace {

/// Once a process.
Status understand_protocols(const Settings& settings) {
  const std::string& asked = settings.text("PROTO");
  if (asked.empty()) return ok_status();
  TUTTI_TRY(check_protocols(asked));
  log_warn("",
           "{}={} changes nothing: how data moves follows from its size and from where the "
           "ranks are",
           settings.source("PROTO"), asked);
  return ok_status();
}

InterfaceChoice interfaces_of(const Settings& settings) {
  return {settings.text("SOCKET_IFNAME"), settings.text("SOCKET_FAMILY")};
}

plugin::StartOptions plugin_start(const Settings& settings) {
  plugin::StartOptions start;
  if (!settings.flag("NET_PLUGIN_TRIAL")) start.trial = Nanos::zero();
  return start;
}

/// Of the first library with a plugin for collectives that works.
Result<std::unique_ptr<Aggregation>> open_collnet(const Settings& settings) {
  std::string why;
  for (const std::string& name : plugin::library_names(settings.text("NET_PLUGIN"))) {
    const auto open = [&]() -> Result<std::unique_ptr<Aggregation>> {
      TUTTI_ASSIGN(auto opened, plugin::CollNetPlugin::open(name, plugin_start(settings)));
      return make_collnet_aggregation(
          {.plugin = std::move(opened), .interfaces = interfaces_of(settings)});
    };
    auto aggregation = open();
    if (aggregation) return aggregation;
    why += (why.empty() ? "" : "; ") + aggregation.error().what;
  }
  return make_error(Code::kUnavailable, "no plugin for collectives can be used ({}={}): {}",
                    settings.source("NET_PLUGIN"), settings.text("NET_PLUGIN"),
                    why.empty() ? "none is named" : why);
}

/// Null where no plugin adds: calls then run without it, as they do where it breaks.
std::unique_ptr<Aggregation> find_collnet(const Settings& settings) {
  if (!settings.flag("COLLNET_ENABLE")) return nullptr;
  auto aggregation = open_collnet(settings);
  if (aggregation) return *std::move(aggregation);
  log_warn("", "{} is set, but nothing in the network adds: {}", settings.source("COLLNET_ENABLE"),
           aggregation.error().what);
  return nullptr;
}

/// Null where nothing in the network adds.
Result<std::unique_ptr<Aggregation>> find_aggregation(const Settings& settings) {
  if (settings.text("INNETWORK") == "off") return std::unique_ptr<Aggregation>();
  SwitchOptions options;
  TUTTI_ASSIGN(options.switches, parse_switches(settings.text("SWITCH")));
  if (options.switches.empty()) return find_collnet(settings);
  if (settings.flag("COLLNET_ENABLE"))
    log_info(Subsystem::kNet, "", "{} is not used, since TUTTI_SWITCH is set",
             settings.source("COLLNET_ENABLE"));
  const std::string& key = settings.text("SWITCH_KEY");
  if (!from_hex(key, options.key))
    return make_error(Code::kInvalidArgument,
                      "TUTTI_SWITCH needs TUTTI_SWITCH_KEY, the switch's 64 hexadecimal digits "
                      "(it has {} characters): make one with `openssl rand -hex 32`",
                      key.size());
  options.slots = static_cast<std::uint32_t>(settings.integer("SWITCH_SLOTS"));
  return make_switch_aggregation(std::move(options));
}

/// Null for host communicators.
Result<cuda::SharedDriver> find_gpus(const Settings& settings) {
  const std::string& wanted = settings.text("DEVICE");
  if (wanted == "host") return cuda::SharedDriver();
  auto driver = cuda::Driver::open();
  if (driver || wanted == "cuda") return driver;
  // What has no driver is an ordinary machine; one with a driver and no use of it may be a mistake.
  const Error& why = driver.error();
  if (why.code == Code::kUnsupported)
    log_info(Subsystem::kInit, "", "communicators work on host memory: {}", why.what);
  else
    log_warn("", "communicators work on host memory, since no GPU can be used: {}", why.what);
  return cuda::SharedDriver();
}

/// Empty, and said in the log, where there is none: calls on GPU memory then pass through the host.
std::vector<std::byte> find_device_code() {
  auto code = exec::cuda::load_device_code(exec::cuda::device_code_path());
  if (code) return *std::move(code);
  log_warn("", "calls on GPU memory pass through the host, since there are no kernels: {}",
           code.error().what);
  return {};
}

Nanos liveness_of(const Settings& settings) {
  return std::chrono::duration_cast<Nanos>(
      std::chrono::duration<double>(settings.seconds("LIVENESS")));
}

}  // namespace

Result<std::shared_ptr<Transport>> open_tcp(const Settings& settings, std::uint64_t token) {
  TcpOptions options;
  options.token = token;
  options.interfaces = interfaces_of(settings);
  options.liveness = liveness_of(settings);
  options.sockets = static_cast<std::size_t>(settings.integer("TCP_SOCKETS"));
  options.most_interfaces = static_cast<std::size_t>(settings.integer("TCP_INTERFACES"));
  return make_tcp_transport(options);
}

#if TUTTI_HAVE_IBVERBS
namespace {

/// The RDMA port that a NIC of a topology is, as in "mlx5_0:1".
std::string port_of(const topo::Node& nic) {
  std::string device = nic.name, port = "1";
  for (const topo::Attribute& attribute : nic.attributes)
    if (attribute.key == "name")
      device = attribute.value;
    else if (attribute.key == "port")
      port = attribute.value;
  return fmt::format("{}:{}", device, port);
}

/// Those of `rails` nearest to a GPU, whatever other NICs the host has.
verbs::NearPorts ports_near_gpu(topo::PathFinder& finder, topo::NodeId gpu,
                                std::span<const verbs::Rail> rails) {
  const topo::Topology& topology = finder.topology();
  std::vector<topo::NodeId> nics;
  for (const topo::NodeId id : topology.nodes_of(topology.node(gpu).host)) {
    if (topology.node(id).kind != topo::NodeKind::kNic) continue;
    const std::string port = port_of(topology.node(id));
    if (std::ranges::any_of(rails, [&](const verbs::Rail& rail) {
          return port == fmt::format("{}:{}", rail.device, rail.port);
        }))
      nics.push_back(id);
  }
  verbs::NearPorts near{.seen_from = topology.node(gpu).name};
  for (const topo::NodeId nic : topo::shortest_to(finder, gpu, nics)) {
    near.ports.push_back(port_of(topology.node(nic)));
    near.place = topo::describe_place(finder.find(gpu, nic).kind, topology.node(gpu));
  }
  return near;
}

/// The RDMA ports nearest to the GPU of this process, else to its CPUs; none where all are alike.
verbs::NearPorts near_ports(ThisHost& host, std::span<const verbs::Rail> rails) {
  const auto described = host.describe();
  if (!described) return {};
  topo::PathFinder finder(described->topology);
  if (const auto gpu = topo::gpu_at(described->topology, 0, host.gpu_bus_id()))
    return ports_near_gpu(finder, *gpu, rails);
  verbs::NearPorts near{.place = "near this process's CPUs", .seen_from = "this process's CPUs"};
  for (const topo::NodeId nic : topo::nearest_nics_of_process(finder, 0))
    near.ports.push_back(port_of(described->topology.node(nic)));
  return near;
}

}  // namespace

Result<std::shared_ptr<Transport>> open_rdma(const Settings& settings, std::uint64_t token,
                                             std::shared_ptr<ThisHost> host, Service* service) {
  TUTTI_ASSIGN(const auto library, verbs::Library::open());
  if (const Status prepared = library->prepare_for_fork(); !prepared)
    log_warn("", "this process must not fork while it uses RDMA: {}", prepared.error().what);
  const auto number = [&](const char* name) {
    return static_cast<std::uint8_t>(settings.integer(name));
  };
  VerbsOptions options;
  options.token = token;
  options.interfaces = interfaces_of(settings);
  options.ports = {.devices = settings.text("IB_HCA"),
                   .gid_index = static_cast<int>(settings.integer("IB_GID_INDEX"))};
  options.near = [host = std::move(host)](std::span<const verbs::Rail> rails) {
    return near_ports(*host, rails);
  };
  options.path.traffic_class = number("IB_TC");
  options.path.service_level = number("IB_SL");
  options.path.timeout = number("IB_TIMEOUT");
  options.path.retries = number("IB_RETRY_CNT");
  options.pairs_of_each_rail = number("IB_QPS_PER_CONNECTION");
  options.liveness = liveness_of(settings);
  options.service = service;
  return make_verbs_transport(library, options);
}
#else
Result<std::shared_ptr<Transport>> open_rdma(const Settings&, std::uint64_t,
                                             std::shared_ptr<ThisHost>, Service*) {
  return make_error(Code::kUnsupported,
                    "this build has no RDMA: libibverbs' headers were missing (libibverbs-dev)");
}
#endif

namespace {

#if TUTTI_HAVE_UCX
/// `faster_only`: kUnsupported where UCX has nothing between hosts but TCP.
Result<std::shared_ptr<Transport>> open_ucx(const Settings& settings, std::uint64_t token,
                                            bool faster_only) {
  TUTTI_ASSIGN(auto library, ucx::Library::open());
  TUTTI_ASSIGN(auto context, ucx::Context::create(std::move(library)));
  if (faster_only && std::ranges::none_of(context->transports(), ucx::is_fast_network))
    return make_error(Code::kUnsupported, "UCX has nothing here but {}",
                      fmt::join(context->transports(), ", "));
  return make_ucx_transport(
      std::move(context),
      {.token = token, .interfaces = interfaces_of(settings), .liveness = liveness_of(settings)});
}
#else
Result<std::shared_ptr<Transport>> open_ucx(const Settings&, std::uint64_t, bool) {
  return make_error(Code::kUnsupported,
                    "this build has no UCX: its headers were missing (libucx-dev)");
}
#endif

/// The first of NCCL's network plugins that works.
Result<std::shared_ptr<Transport>> open_nccl_net(const Settings& settings, std::uint64_t token) {
  std::string why;
  for (const std::string& name : plugin::library_names(settings.text("NET_PLUGIN"))) {
    const auto open = [&]() -> Result<std::shared_ptr<Transport>> {
      TUTTI_ASSIGN(auto opened, plugin::NetPlugin::open(name, plugin_start(settings)));
      return make_nccl_net_transport(std::move(opened), {.token = token,
                                                         .interfaces = interfaces_of(settings),
                                                         .liveness = liveness_of(settings)});
    };
    auto transport = open();
    if (transport) return transport;
    why += (why.empty() ? "" : "; ") + transport.error().what;
  }
  return make_error(Code::kUnsupported, "no network plugin can be used ({}={}): {}",
                    settings.source("NET_PLUGIN"), settings.text("NET_PLUGIN"),
                    why.empty() ? "none is named" : why);
}

/// What the user has set up for NCCL comes before what is found.
std::shared_ptr<Transport> find_plugin(const Settings& settings, std::uint64_t token) {
  if (settings.text("NET_PLUGIN").empty()) return nullptr;
  auto transport = open_nccl_net(settings, token);
  if (transport) {
    log_info(Subsystem::kNet, "", "hosts are reached by nccl_net: {} is set",
             settings.source("NET_PLUGIN"));
    return *std::move(transport);
  }
  log_warn("", "hosts are not reached by nccl_net: {}", transport.error().what);
  return nullptr;
}

/// What reaches other hosts before tcp does. Null where only tcp can, or is asked for.
Result<std::shared_ptr<Transport>> find_network(const Settings& settings, std::uint64_t token,
                                                const std::shared_ptr<ThisHost>& host,
                                                Service* service) {
  const std::string& wanted = settings.text("TRANSPORT");
  if (wanted != "auto" && wanted != "nccl_net" && !settings.text("NET_PLUGIN").empty() &&
      !settings.flag("COLLNET_ENABLE"))
    log_info(Subsystem::kNet, "", "{} is not used, since TUTTI_TRANSPORT is {}; nccl_net uses it",
             settings.source("NET_PLUGIN"), wanted);
  if (wanted == "tcp") return std::shared_ptr<Transport>();
  if (wanted == "verbs") return open_rdma(settings, token, host, service);
  if (wanted == "ucx") return open_ucx(settings, token, false);
  if (wanted == "nccl_net") return open_nccl_net(settings, token);
  if (auto plugin = find_plugin(settings, token)) return plugin;
  auto verbs = open_rdma(settings, token, host, service);
  if (verbs) {
    log_info(Subsystem::kNet, "", "hosts are reached by verbs: there is an RDMA device");
    return verbs;
  }
  auto ucx = open_ucx(settings, token, true);
  if (ucx) {
    log_info(Subsystem::kNet, "",
             "hosts are reached by ucx, which has more than TCP; not by verbs: {}",
             verbs.error().what);
    return ucx;
  }
  // A machine without RDMA is an ordinary one; where a device is there and of no use, people should
  // know before they wonder about the speed.
  const bool ordinary =
      verbs.error().code == Code::kUnsupported && ucx.error().code == Code::kUnsupported;
  const std::string why = fmt::format("hosts are reached by tcp; not by verbs: {}; not by ucx: {}",
                                      verbs.error().what, ucx.error().what);
  if (ordinary)
    log_info(Subsystem::kNet, "", "{}", why);
  else
    log_warn("", "{}", why);
  return std::shared_ptr<Transport>();
}

}  // namespace

Result<std::shared_ptr<Runtime>> make_runtime(const Settings& settings) {
  TUTTI_TRY(understand_protocols(settings));
  auto runtime = std::make_shared<Runtime>();
  runtime->settings = settings;
  TUTTI_ASSIGN(runtime->service, Service::create());
  runtime->process_token = runtime->service->token();
  TUTTI_ASSIGN(runtime->heap, SharedHeap::create());
  runtime->staging = std::make_unique<exec::StagingPool>(runtime->heap);

  TUTTI_ASSIGN(runtime->cuda, find_gpus(settings));
  if (runtime->cuda) {
    runtime->slots = std::make_shared<exec::cuda::SlotPool>(runtime->cuda, runtime->heap);
    runtime->allocations = std::make_unique<exec::cuda::Allocations>(runtime->cuda);
    runtime->enqueue_barriers = std::make_unique<exec::cuda::EnqueueBarriers>();
    runtime->joint_calls = std::make_unique<exec::cuda::JointBoard>();
    runtime->kernels = std::make_unique<exec::cuda::Kernels>(runtime->cuda, find_device_code());
    runtime->images = std::make_shared<exec::cuda::ImagePool>(runtime->cuda);
    runtime->peer_memory = make_cuda_p2p(runtime->cuda, {.host_id = settings.text("HOSTID")});
  }

  runtime->this_host = std::make_shared<ThisHost>(std::make_unique<topo::FilesProbe>(), settings);

  if (settings.flag("SHM")) {
    ShmOptions options;
    options.token = runtime->process_token;
    options.host_id = settings.text("HOSTID");
    TUTTI_ASSIGN(auto shm, make_shm_transport(runtime->heap, options));
    runtime->transports.push_back(std::move(shm));
  }
  TUTTI_ASSIGN(auto network, find_network(settings, runtime->process_token, runtime->this_host,
                                          runtime->service.get()));
  if (network) {
    if (network->caps().one_sided)
      runtime->heap->watch_by(std::make_unique<RegisteredHeap>(network));
    if (network->caps().device_memory && runtime->cuda && settings.flag("GPUDIRECT"))
      runtime->nic_memory = std::make_unique<NicMemory>(runtime->cuda, network);
    runtime->transports.push_back(std::move(network));
  }
  if (settings.text("TRANSPORT") == "auto" || settings.text("TRANSPORT") == "tcp") {
    TUTTI_ASSIGN(auto tcp, open_tcp(settings, runtime->process_token));
    runtime->transports.push_back(std::move(tcp));
  }

  runtime->tuning = store_of_verdicts(settings);
  runtime->table = store_of_table(settings);
  runtime->calibration = std::make_unique<CalibrationStore>(settings.text("CALIBRATION"));

  for (const ir::Algorithm& algorithm : algorithms::all()) runtime->algorithms.push_back(algorithm);
  TUTTI_ASSIGN(runtime->aggregation, find_aggregation(settings));
  for (const ir::Algorithm& algorithm : algorithms::in_network())
    runtime->in_network.push_back(algorithm);
  runtime->forests = std::make_unique<Forests>(
      [](const ir::Request& request, const topo::forest::Network& network) -> Result<ir::Schedule> {
        TUTTI_ASSIGN(algorithms::RoutedSchedule planned,
                     algorithms::planned_forest(request, network));
        return std::move(planned.schedule);
      });
  runtime->asked_algorithms = asked_algorithms(settings, runtime->algorithms);
  return runtime;
}

}  // namespace tutti
