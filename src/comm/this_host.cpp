#include "src/comm/this_host.hpp"

#include <utility>

#include "src/base/result.hpp"
#include "src/topo/detect/any_format.hpp"
#include "src/topo/detect/detect.hpp"
#include "src/topo/job/fuse.hpp"

namespace tutti {

ThisHost::ThisHost(std::unique_ptr<topo::SystemProbe> system, const Settings& settings)
    : system_(std::move(system)),
      file_(settings.text("TOPO_FILE")),
      file_setting_(settings.source("TOPO_FILE")) {}

Result<topo::Noted> ThisHost::describe() {
  const std::scoped_lock lock(mutex_);
  if (known_) return *known_;
  if (!file_.empty()) {
    TUTTI_ASSIGN(known_, read_file());
    return *known_;
  }
  auto detected = topo::detect(*system_);
  known_ = detected ? *std::move(detected) : topo::unknown_host("host", detected.error().what);
  return *known_;
}

void ThisHost::place_at_gpu(std::string bus_id) {
  const std::scoped_lock lock(mutex_);
  if (gpu_bus_id_.empty()) gpu_bus_id_ = std::move(bus_id);
}

std::string ThisHost::gpu_bus_id() const {
  const std::scoped_lock lock(mutex_);
  return gpu_bus_id_;
}

Result<topo::Noted> ThisHost::read_file() const {
  auto described = topo::read_topology_file(file_);
  if (!described)
    return make_error(Code::kInvalidArgument, "{}: {}", file_setting_, described.error().what);
  if (const Status one = topo::check_host(described->topology); !one)
    return make_error(Code::kInvalidArgument, "{}: '{}': {}", file_setting_, file_,
                      one.error().what);
  return described;
}

}  // namespace tutti
