#include "src/builtin/builtin.hpp"

#include "algorithms/algorithms.hpp"
#include "algorithms/forest.hpp"
#include "src/base/log.hpp"
#include "src/base/result.hpp"
#include "src/cost/asked.hpp"
#include "src/cuda/driver.hpp"
#include "src/exec/cuda/device_code.hpp"
#include "src/topo/detect/probe.hpp"
#include "src/wire/service.hpp"
#include "transports/cuda_p2p/cuda_p2p.hpp"
#include "transports/shm/shm_transport.hpp"
#include "transports/tcp/tcp_transport.hpp"

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

  if (settings.flag("SHM")) {
    ShmOptions options;
    options.token = runtime->process_token;
    options.host_id = settings.text("HOSTID");
    TUTTI_ASSIGN(auto shm, make_shm_transport(runtime->heap, options));
    runtime->transports.push_back(std::move(shm));
  }
  TcpOptions options;
  options.token = runtime->process_token;
  options.interfaces = {settings.text("SOCKET_IFNAME"), settings.text("SOCKET_FAMILY")};
  options.liveness = std::chrono::duration_cast<Nanos>(
      std::chrono::duration<double>(settings.seconds("LIVENESS")));
  options.sockets = static_cast<std::size_t>(settings.integer("TCP_SOCKETS"));
  TUTTI_ASSIGN(auto tcp, make_tcp_transport(options));
  runtime->transports.push_back(std::move(tcp));

  runtime->this_host = std::make_unique<ThisHost>(std::make_unique<topo::FilesProbe>(), settings);

  runtime->tuning = store_of_verdicts(settings);
  runtime->table = store_of_table(settings);
  runtime->calibration = std::make_unique<CalibrationStore>(settings.text("CALIBRATION"));

  for (const ir::Algorithm& algorithm : algorithms::all()) runtime->algorithms.push_back(algorithm);
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
