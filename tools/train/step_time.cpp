#include "tools/train/step_time.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string_view>
#include <utility>

#include "src/base/printable.hpp"
#include "src/base/result.hpp"

namespace tutti::trainer {
namespace {

using training::AfterForward;
using training::GroupId;

/// What goes over a host's link for a group, in bytes.
struct GroupLink {
  double forward = 0, backward = 0;  ///< gathers of one pass
  bool is_gathered_once = false;     ///< in the first pass alone
  double gradients = 0;              ///< each time that they are sent
  double stepped = 0;                ///< parameters, at the end of a step
  double share = 0;                  ///< of all that is computed
};

std::vector<GroupLink> links_of(const training::Plan& plan, int hosts) {
  const training::FlatLayout& layout = *plan.layout();
  const training::PlanOptions& options = plan.options();
  const double on_a_host = static_cast<double>(plan.mesh().world()) / hosts;
  const double passes = options.passes, sends = plan.sends_every_pass() ? passes : 1;
  std::vector<GroupLink> links;
  for (GroupId group = 0; group < layout.groups().size(); ++group) {
    const training::TrafficPlan traffic = plan.traffic_of(group, hosts);
    const double gathers =
        on_a_host * static_cast<double>(traffic.other_hosts - traffic.other_hosts_sums);
    GroupLink link{.gradients = on_a_host * static_cast<double>(traffic.other_hosts_sums) / sends,
                   .share = static_cast<double>(layout.elements(group)) /
                            static_cast<double>(layout.table().elements())};
    link.is_gathered_once =
        plan.keeps_whole_for_step(group) || options.after_forward == AfterForward::kSecondary;
    if (plan.parameters_are_whole())
      link.stepped = gathers;
    else if (link.is_gathered_once)
      link.forward = gathers;
    else if (options.after_forward == AfterForward::kKeep)
      link.forward = gathers / passes;
    else
      link.forward = link.backward = gathers / (2 * passes);
    links.push_back(link);
  }
  return links;
}

/// A link that does one thing after the other, and a rank that computes.
class Clock {
 public:
  explicit Clock(double bytes_per_second) : bytes_per_second_(bytes_per_second) {}
  /// Sends so much, not before `earliest`; returns when it is there.
  double send(double bytes, double earliest) {
    if (bytes == 0) return earliest;
    free_ = std::max(free_, earliest) + bytes / bytes_per_second_;
    return free_;
  }
  void compute(double seconds, double earliest) { now_ = std::max(now_, earliest) + seconds; }
  void wait() { now_ = std::max(now_, free_); }
  [[nodiscard]] double now() const { return now_; }

 private:
  double bytes_per_second_;
  double free_ = 0, now_ = 0;
};

}  // namespace

Result<double> parse_link(const std::string& text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, wrong] = std::from_chars(text.data(), end, number);
  const std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  constexpr double kBits = 8;
  for (const auto& [name, factor] :
       {std::pair<std::string_view, double>{"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}})
    if (wrong == std::errc{} && unit == name && number > 0 && number < 1e9)
      return number * factor / kBits;
  return make_error(Code::kInvalidArgument,
                    "--link '{}': a rate was expected, as in 100mbit or 1gbit",
                    without_controls(text));
}

double step_seconds(const training::Plan& plan, int hosts, double bytes_per_second,
                    double compute) {
  const std::vector<GroupLink> links = links_of(plan, hosts);
  const int passes = plan.options().passes;
  const double forward = compute / passes / 3, backward = compute / passes * 2 / 3;
  const bool in_units = !plan.parameters_are_whole();
  Clock clock(bytes_per_second);
  for (int pass = 0; pass < passes; ++pass) {
    const bool is_first = pass == 0, is_last = pass + 1 == passes;
    // A gather begins when the unit before the one before is no longer used.
    double begun = clock.now(), begun_before = clock.now();
    for (const GroupLink& link : links) {
      const bool gathers = is_first || !link.is_gathered_once;
      const double there = clock.send(gathers ? link.forward : 0, begun_before);
      begun_before = std::exchange(begun, std::max(clock.now(), there));
      clock.compute(forward * link.share, there);
    }
    begun = begun_before = clock.now();
    const bool sends = is_last || plan.sends_every_pass();
    for (std::size_t at = 0; at < links.size(); ++at) {
      // Buckets are in the order of gradients, units in that of the forward pass.
      const GroupLink& link = links[in_units ? links.size() - 1 - at : at];
      const double there = clock.send(link.backward, begun_before);
      begun_before = std::exchange(begun, std::max(clock.now(), there));
      clock.compute(backward * link.share, there);
      if (sends) clock.send(link.gradients, clock.now());
    }
    if (sends) clock.wait();
  }
  for (const GroupLink& link : links) clock.send(link.stepped, clock.now());
  clock.wait();
  return clock.now();
}

}  // namespace tutti::trainer
