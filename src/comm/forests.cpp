#include "src/comm/forests.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/hash.hpp"
#include "src/base/result.hpp"
#include "src/topo/forest/forest.hpp"
#include "src/topo/forest/from_topology.hpp"

namespace tutti {
namespace {

constexpr std::int32_t kMostRanks = 64;

std::vector<topo::NodeId> gpus_of(const topo::Topology& topology, topo::HostId host) {
  std::vector<topo::NodeId> gpus;
  for (const topo::NodeId id : topology.nodes_of(host))
    if (topology.node(id).kind == topo::NodeKind::kGpu) gpus.push_back(id);
  return gpus;
}

/// Whether `device`, a label for people, tells the bus id of this GPU.
bool is_named(const topo::Node& gpu, const std::string& device) {
  return std::ranges::any_of(gpu.attributes, [&](const topo::Attribute& attribute) {
    return attribute.key == "busid" && !attribute.value.empty() &&
           device.find(attribute.value) != std::string::npos;
  });
}

}  // namespace

topo::Placement places_for_forest(const topo::JobTopology& job,
                                  std::span<const std::string> devices) {
  const topo::Topology& topology = job.topology;
  topo::Placement places = job.placement;
  std::map<topo::HostId, std::vector<std::size_t>> ranks_of;
  for (std::size_t rank = 0; rank < places.ranks.size(); ++rank)
    ranks_of[topology.node(places.ranks[rank]).host].push_back(rank);
  for (const auto& [host, ranks] : ranks_of) {
    const std::vector<topo::NodeId> gpus = gpus_of(topology, host);
    if (gpus.size() < ranks.size()) continue;
    std::vector<bool> taken(gpus.size());
    std::vector<std::size_t> elsewhere;  // ranks whose label names none of these
    for (const std::size_t rank : ranks) {
      std::size_t gpu = 0;
      while (gpu < gpus.size() && !is_named(topology.node(gpus[gpu]), devices[rank])) ++gpu;
      if (gpu == gpus.size() || taken[gpu]) {
        elsewhere.push_back(rank);
        continue;
      }
      taken[gpu] = true;
      places.ranks[rank] = gpus[gpu];
    }
    for (const std::size_t rank : elsewhere) {
      const auto free = std::ranges::find(taken, false) - taken.begin();
      taken[static_cast<std::size_t>(free)] = true;
      places.ranks[rank] = gpus[static_cast<std::size_t>(free)];
    }
  }
  return places;
}

/// One, with what has grown. Neither moves.
class Forests::Forest {
 public:
  Forest(std::string name, const Plan& plan, std::shared_ptr<const topo::JobTopology> job,
         topo::Placement places)
      : name_(std::move(name)), plan_(plan), job_(std::move(job)), places_(std::move(places)) {
    algorithm_.name = name_;
    algorithm_.summary = "spanning trees that are the optimum of this machine";
    algorithm_.supports = [this](const ir::Request& request) { return supports(request); };
    algorithm_.generate = [this](const ir::Request& request) { return generate(request); };
    algorithm_.only_by_name = true;
  }

  [[nodiscard]] const ir::Algorithm& algorithm() const { return algorithm_; }

 private:
  [[nodiscard]] bool supports(const ir::Request& request) const {
    return request.ranks >= 2 && request.ranks == static_cast<std::int32_t>(places_.ranks.size()) &&
           topo::forest::carries(request.collective);
  }

  Result<ir::Schedule> generate(const ir::Request& request) {
    ir::Request shape = request;
    shape.layout = {};
    const std::scoped_lock lock(mutex_);  // ranks that are threads ask for the same at once
    if (const ir::Schedule* const known = find(shape)) return with_layout(*known, request.layout);
    if (request.ranks > kMostRanks)
      return make_error(Code::kUnsupported,
                        "a forest over {} ranks takes minutes to grow: it runs on up to {}",
                        request.ranks, kMostRanks);
    if (!network_) {
      auto noted = topo::forest::network_of(job_->topology, places_);
      if (!noted)
        return make_error(noted.error().code, "no forest grows on this machine: {}",
                          noted.error().what);
      network_ = std::move(noted->network);
    }
    TUTTI_ASSIGN(ir::Schedule schedule, plan_(shape, *network_));
    grown_.push_back(std::move(schedule));
    return with_layout(grown_.back(), request.layout);
  }

  [[nodiscard]] const ir::Schedule* find(const ir::Request& shape) const {
    const auto found = std::ranges::find(grown_, shape, &ir::Schedule::request);
    return found == grown_.end() ? nullptr : &*found;
  }

  static ir::Schedule with_layout(ir::Schedule schedule, const ir::Layout& layout) {
    schedule.request.layout = layout;
    return schedule;
  }

  const std::string name_;
  const Plan& plan_;
  const std::shared_ptr<const topo::JobTopology> job_;
  const topo::Placement places_;
  ir::Algorithm algorithm_;
  std::mutex mutex_;
  std::optional<topo::forest::Network> network_;
  std::vector<ir::Schedule> grown_;
};

Forests::Forests(Plan plan) : plan_(std::move(plan)) {}
Forests::~Forests() = default;

const ir::Algorithm* Forests::of(const std::shared_ptr<const topo::JobTopology>& job,
                                 std::span<const std::string> devices) {
  topo::Placement places = places_for_forest(*job, devices);
  const std::uint64_t hash = mix(job->topology.hash(), fnv(std::as_bytes(std::span(places.ranks))));
  std::string name = fmt::format("forest#{:016x}", hash);
  const std::scoped_lock lock(mutex_);
  std::unique_ptr<Forest>& forest = forests_[name];
  if (!forest) forest = std::make_unique<Forest>(name, plan_, job, std::move(places));
  return &forest->algorithm();
}

}  // namespace tutti
