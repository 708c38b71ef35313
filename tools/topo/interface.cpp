#include "tools/topo/interface.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "src/base/result.hpp"
#include "src/base/settings.hpp"
#include "src/wire/net.hpp"
#include "tools/calibrate/measure.hpp"

namespace tutti::tools {
namespace {

constexpr double kMbitPerGb = 8000;

/// The one that the transport over TCP listens on.
Result<std::string> name_of_interface() {
  TUTTI_ASSIGN(const Settings settings, Settings::load(process_environment()));
  TUTTI_ASSIGN(const auto all, list_interfaces());
  TUTTI_ASSIGN(const auto chosen, select_interfaces(all, {settings.text("SOCKET_IFNAME"),
                                                          settings.text("SOCKET_FAMILY")}));
  return chosen.front().name;
}

}  // namespace

Result<std::optional<InterfaceSpeed>> measure_interface(double seconds) {
  TUTTI_ASSIGN(const calibrate::Member member, calibrate::join());
  if (member.hosts < 2)
    return make_error(Code::kInvalidArgument,
                      "--measure sends data to another host, and this job has {}: start one rank "
                      "on each of at least two hosts, by mpirun, srun or torchrun",
                      member.names);
  TUTTI_ASSIGN(const double bandwidth, calibrate::measure_network(member, seconds));
  if (member.rank != 0) return std::optional<InterfaceSpeed>();
  TUTTI_ASSIGN(std::string name, name_of_interface());
  return std::optional(InterfaceSpeed{std::move(name), bandwidth, member.names});
}

Result<std::string> MeasuredProbe::read_file(const std::string& path) {
  Result<std::string> answer = system_.read_file(path);
  const std::string interface = fmt::format("/sys/class/net/{}", measured_.name);
  if (path != interface + "/speed") return answer;
  told_ = answer ? std::max(0L, std::atol(answer->c_str())) : 0;
  const auto link = system_.link_target(interface);
  const bool is_virtual = link && link->find("/virtual/") != std::string::npos;
  const long measured = std::max(1L, std::lround(measured_.bandwidth * kMbitPerGb));
  is_kept_ = told_ > measured && !is_virtual;
  return is_kept_ ? answer : std::to_string(measured);
}

std::string MeasuredProbe::sentence() const {
  const std::string told =
      told_ == 0 ? "no speed" : fmt::format("{:.3g} GB/s", static_cast<double>(told_) / kMbitPerGb);
  return fmt::format(
      "{}: {:.3g} GB/s each way over TCP, measured between {}; its driver tells {}{}",
      measured_.name, measured_.bandwidth, measured_.between, told,
      is_kept_ ? ", which is kept" : "");
}

}  // namespace tutti::tools
