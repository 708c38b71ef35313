// Findings that take a look at several hosts or pairs.
#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "tools/doctor/findings.hpp"

namespace tutti::doctor {
namespace {

constexpr double kSlowBandwidth = 0.7;  // of the median
constexpr double kSlowLatency = 3;
constexpr std::size_t kFewPairs = 3;  // of fewer, none is the odd one out
constexpr std::size_t kNamedHosts = 8;

using Hosts = std::vector<std::string>;

std::string list_of(const Hosts& hosts) {
  if (hosts.size() <= kNamedHosts) return fmt::format("{}", fmt::join(hosts, ", "));
  return fmt::format("{} and {} more", fmt::join(hosts.begin(), hosts.begin() + kNamedHosts, ", "),
                     hosts.size() - kNamedHosts);
}

/// "a: 0.1.0; b, c: 0.2.0"
std::string by_value(const std::map<std::string, Hosts>& values) {
  std::string text;
  for (const auto& [value, hosts] : values)
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", list_of(hosts),
                        value.empty() ? "not set" : value);
  return text;
}

/// They name devices, files or a host: different values may be right.
bool may_differ(std::string_view name) {
  constexpr std::string_view kOfOneHost[] = {"HOSTID", "IB_HCA", "SOCKET_IFNAME", "IB_GID_INDEX",
                                             "TOPO_FILE"};
  const std::string_view bare = name.substr(name.find('_') + 1);
  return std::ranges::find(kOfOneHost, bare) != std::end(kOfOneHost);
}

void different_versions(const JobFacts& job, std::vector<Finding>& findings) {
  std::map<std::string, Hosts> versions;
  for (const HostFacts& host : job.hosts) versions[host.version].push_back(host.name);
  if (versions.size() < 2) return;
  findings.push_back({Severity::kWarning, "all hosts",
                      fmt::format("the versions of libtutti differ: {}", by_value(versions)),
                      "ranks of different versions may refuse each other, or choose differently",
                      "install the same build on all hosts"});
}

void different_settings(const JobFacts& job, std::vector<Finding>& findings) {
  std::set<std::string> names;
  for (const HostFacts& host : job.hosts)
    for (const auto& [name, value] : host.settings) names.insert(name);
  for (const std::string& name : names) {
    std::map<std::string, Hosts> values;
    for (const HostFacts& host : job.hosts) {
      const auto found = host.settings.find(name);
      values[found == host.settings.end() ? "" : found->second].push_back(host.name);
    }
    if (values.size() < 2 || name.ends_with("HOSTID")) continue;
    const bool tolerable = may_differ(name);
    findings.push_back({tolerable ? Severity::kNote : Severity::kWarning, "all hosts",
                        fmt::format("{} differs: {}", name, by_value(values)),
                        tolerable
                            ? "it names what one host has, so different values may be right"
                            : "a setting that not all ranks have may count on some of them only",
                        "set it alike on all hosts: the launcher may not pass variables on "
                        "(`mpirun -x NAME`, `srun "
                        "--export=ALL`)"});
  }
}

double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

/// A pair that was measured over one transport.
struct Sample {
  std::string place;
  double latency_us = 0, mb_s = 0;
};

void slow_pairs(std::string_view transport, const std::vector<Sample>& samples,
                std::vector<Finding>& findings) {
  if (samples.size() < 2) return;
  const Severity severity = samples.size() < kFewPairs ? Severity::kNote : Severity::kWarning;
  std::vector<double> latencies, speeds;
  for (const Sample& sample : samples) {
    latencies.push_back(sample.latency_us);
    speeds.push_back(sample.mb_s);
  }
  const double latency = median_of(latencies), speed = median_of(speeds);
  for (const Sample& sample : samples) {
    if (sample.mb_s < kSlowBandwidth * speed)
      findings.push_back(
          {severity, sample.place,
           fmt::format("{} moves {:.0f} MB/s between them; the median of {} pairs is {:.0f} MB/s",
                       transport, sample.mb_s, samples.size(), speed),
           "the slowest pair sets the pace of a collective",
           "compare the two hosts with others: speed and errors of the interface (`ethtool "
           "INTERFACE`, `ip -s link`), cable, switch port, other programs; if one host is in all "
           "slow pairs, it is the one"});
    if (sample.latency_us > kSlowLatency * latency)
      findings.push_back(
          {severity, sample.place,
           fmt::format("a round trip over {} takes {:.0f} us between them; the median of {} pairs "
                       "is {:.0f} us",
                       transport, sample.latency_us, samples.size(), latency),
           "small collectives wait for the slowest pair",
           "compare the path (`tracepath HOST`: more hops?), busy CPUs, power saving and interrupt "
           "moderation (`ethtool -c INTERFACE`)"});
  }
}

void slow_pairs(const JobFacts& job, std::vector<Finding>& findings) {
  std::vector<Sample> tcp, rdma;
  for (const PairFacts& pair : job.pairs) {
    if (!pair.of_first) continue;
    const std::string place =
        fmt::format("{} - {}", job.hosts[pair.pair.first].name, job.hosts[pair.pair.second].name);
    const auto add = [&](const LinkFacts& link, std::vector<Sample>& to) {
      if (link.latency_us > 0 && least_mb_s(link) > 0)
        to.push_back({place, link.latency_us, least_mb_s(link)});
    };
    add(pair.of_first->tcp, tcp);
    if (pair.of_first->rdma) add(*pair.of_first->rdma, rdma);
  }
  slow_pairs("TCP", tcp, findings);
  slow_pairs("RDMA", rdma, findings);
}

/// RDMA that works and is not asked for. It may be a software device, or lose packets: so it is
/// told whether it is the better one.
void unused_rdma(const JobFacts& job, std::vector<Finding>& findings) {
  const auto works = [](const PairFacts& pair) {
    return pair.of_first && pair.of_first->rdma && least_mb_s(*pair.of_first->rdma) > 0;
  };
  const auto is_slower = [](const PairFacts& pair) {
    constexpr double kNoise = 0.9;
    return least_mb_s(*pair.of_first->rdma) < kNoise * least_mb_s(pair.of_first->tcp);
  };
  const bool asked = std::ranges::any_of(
      job.hosts, [](const HostFacts& host) { return transport_of(host) != "tcp"; });
  if (asked || job.pairs.empty() || !std::ranges::all_of(job.pairs, works)) return;
  if (const auto slow = std::ranges::find_if(job.pairs, is_slower); slow != job.pairs.end())
    findings.push_back(
        {Severity::kNote, "all hosts",
         fmt::format("jobs do not use RDMA, which works, but is slower than TCP: {:.1f} MB/s and "
                     "{:.1f} MB/s between {} and {}",
                     least_mb_s(*slow->of_first->rdma), least_mb_s(slow->of_first->tcp),
                     job.hosts[slow->pair.first].name, job.hosts[slow->pair.second].name),
         "devices in software (rxe, siw) are, and RoCE that loses packets",
         "leave TUTTI_TRANSPORT=tcp; if the NICs should be faster, look for losses (`ethtool -S "
         "INTERFACE`) and at the traffic class"});
  else
    findings.push_back(
        {Severity::kNote, "all hosts",
         "RDMA works between all pairs that were checked, and jobs do not use it",
         "the default is TCP (TUTTI_TRANSPORT=tcp)",
         "set TUTTI_TRANSPORT=auto on all hosts, and compare the times of your job"});
}

}  // namespace

std::vector<Finding> findings_between(const JobFacts& job) {
  std::vector<Finding> findings;
  for (const Silent& silent : job.silent)
    findings.push_back({Severity::kError, silent.name,
                        fmt::format("rank {} did not answer: {}", silent.rank, silent.why),
                        "a job that needs this host cannot start",
                        "see whether the host is up and the program starts there (its own messages "
                        "are above, if it could say anything); whether it reaches rank 0 over TCP "
                        "(firewall?); give slow starts more time with --timeout"});
  different_versions(job, findings);
  different_settings(job, findings);
  slow_pairs(job, findings);
  unused_rdma(job, findings);
  return findings;
}

}  // namespace tutti::doctor
