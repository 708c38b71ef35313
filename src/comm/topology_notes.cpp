#include "src/comm/topology_notes.hpp"

#include <algorithm>
#include <span>
#include <string>

#include <fmt/format.h>

#include "src/base/log.hpp"
#include "src/base/result.hpp"
#include "src/base/whole_file.hpp"
#include "src/topo/format/json.hpp"
#include "src/topo/nccl/xml.hpp"

namespace tutti {
namespace {

Status write(const topo::Topology& topology, const std::string& path) {
  if (path.ends_with(".json")) return write_file(path, topo::topology_json(topology));
  TUTTI_ASSIGN(const std::string xml, topo::write_nccl_xml(topology));
  return write_file(path, xml);
}

}  // namespace

void say_topology(const topo::JobTopology& job, std::string_view who) {
  constexpr auto kEither = static_cast<Subsystem>(static_cast<std::uint32_t>(Subsystem::kInit) |
                                                  static_cast<std::uint32_t>(Subsystem::kGraph));
  if (!log_enabled(LogLevel::kInfo, kEither)) return;
  constexpr std::size_t kMostShown = 8;
  const std::size_t all = job.assumptions.size();
  const auto shown = std::span(job.assumptions).first(std::min(all, kMostShown));
  log_info(kEither, who, "topology: hosts {}, nodes {}, links {}, wiring {:016x}{}{}{}",
           job.topology.hosts().size(), job.topology.nodes().size(), job.topology.links().size(),
           job.wiring, all == 0 ? "" : "; assumed: ", fmt::join(shown, "; "),
           all > kMostShown ? fmt::format("; and {} more", all - kMostShown) : "");
}

void dump_topology(const topo::Topology& topology, const Settings& settings, Rank rank,
                   std::string_view who) {
  const std::string& path = settings.text("TOPO_DUMP_FILE");
  if (path.empty() || settings.integer("TOPO_DUMP_FILE_RANK") != rank) return;
  if (const Status written = write(topology, path); !written)
    log_warn(who, "{}: the topology is not written: {}", settings.source("TOPO_DUMP_FILE"),
             written.error().what);
}

}  // namespace tutti
