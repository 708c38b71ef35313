#include "tools/doctor/report.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tools/doctor/facts_json.hpp"
#include "tools/program/cli.hpp"

namespace tutti::doctor {
namespace {

using tools::Table;
using Json = nlohmann::ordered_json;

constexpr std::size_t kMostRows = 40;  // of pairs; the others are in the JSON

std::string mib(std::uint64_t bytes) { return fmt::format("{} MiB", bytes >> 20); }

std::string lock_text(std::int64_t limit) {
  if (limit < 0) return "no limit";
  return limit < (1 << 20) ? fmt::format("{} KiB", limit >> 10)
                           : fmt::format("{} MiB", limit >> 20);
}

std::string speed_text(std::uint32_t mbit_per_s) {
  return mbit_per_s == 0 ? "-" : fmt::format("{} Mbit/s", mbit_per_s);
}

std::string clock_text(const HostFacts& host) {
  return host.rank == 0 ? "0 ms" : fmt::format("{:+.0f} ms", host.clock_offset_s * 1e3);
}

std::string rdma_text(const RdmaFacts& rdma) {
  switch (rdma.state) {
    case RdmaFacts::State::kNotBuilt:
      return "not built";
    case RdmaFacts::State::kNoLibrary:
      return "no libibverbs";
    case RdmaFacts::State::kNoDevice:
      return "no device";
    case RdmaFacts::State::kDevices:
      break;
  }
  return fmt::format("{} of {} ports used", rdma.rails.size(), rdma.ports.size());
}

std::string host_table(const JobFacts& job) {
  Table table(
      {"HOST", "RANK", "LIBTUTTI", "KERNEL", "CLOCK", "MEMLOCK", "/DEV/SHM FREE", "OPEN FILES"});
  for (const HostFacts& host : job.hosts)
    table.add({host.name, std::to_string(host.rank), host.version, host.kernel, clock_text(host),
               lock_text(host.lock_limit), mib(host.shm_free_bytes),
               std::to_string(host.most_open_files)});
  return table.text({1, 4, 5, 6, 7});
}

std::string network_table(const JobFacts& job) {
  Table table({"HOST", "TCP ADDRESS", "INTERFACE", "SPEED", "MTU", "RDMA"});
  for (const HostFacts& host : job.hosts)
    table.add({host.name, host.tcp.address, host.tcp.name, speed_text(host.tcp.mbit_per_s),
               std::to_string(host.tcp.mtu), rdma_text(host.rdma)});
  return "\n" + table.text({4});
}

std::string rail_text(const RdmaFacts& rdma, const RdmaPort& port) {
  const auto rail = std::ranges::find_if(rdma.rails, [&](const verbs::Rail& one) {
    return one.device == port.device && one.port == port.number;
  });
  if (rail == rdma.rails.end()) return "not used";
  return fmt::format("{} ({}, index {})", verbs::to_string(rail->gid), verbs::name_of(rail->type),
                     rail->gid_index);
}

std::string port_table(const JobFacts& job) {
  Table table({"HOST", "RDMA PORT", "STATE", "LINK", "SPEED", "MTU", "TRAFFIC CLASS", "GID"});
  bool any = false;
  for (const HostFacts& host : job.hosts)
    for (const RdmaPort& port : host.rdma.ports) {
      table.add({host.name, fmt::format("{}:{}", port.device, port.number), port.state, port.link,
                 speed_text(port.mbit_per_s), fmt::format("{} of {}", port.mtu, port.most_mtu),
                 std::to_string(host.rdma.traffic_class), rail_text(host.rdma, port)});
      any = true;
    }
  return any ? "\n" + table.text() : "";
}

std::string figure(double value) {
  if (value <= 0) return "-";
  return value < 100 ? fmt::format("{:.1f}", value) : fmt::format("{:.0f}", value);
}

void add_link(std::vector<std::string>& row, const LinkFacts* link) {
  for (const double value :
       {link == nullptr ? 0 : link->latency_us, link == nullptr ? 0 : link->there_mb_s,
        link == nullptr ? 0 : link->back_mb_s})
    row.push_back(figure(value));
}

std::string pair_table(const JobFacts& job) {
  if (job.pairs.empty()) return "";
  const bool rdma = std::ranges::any_of(
      job.pairs, [](const PairFacts& pair) { return pair.of_first && pair.of_first->rdma; });
  std::vector<std::string> header = {"PAIR", "TCP us", "MB/s ->", "MB/s <-"};
  if (rdma) header.insert(header.end(), {"RDMA us", "MB/s ->", "MB/s <-"});
  Table table(header);
  for (const PairFacts& pair : std::span(job.pairs).first(std::min(job.pairs.size(), kMostRows))) {
    std::vector<std::string> row = {
        fmt::format("{} - {}", job.hosts[pair.pair.first].name, job.hosts[pair.pair.second].name)};
    const PairReport* const report = pair.of_first ? &*pair.of_first : nullptr;
    add_link(row, report == nullptr ? nullptr : &report->tcp);
    if (rdma) add_link(row, report != nullptr && report->rdma ? &*report->rdma : nullptr);
    table.add(std::move(row));
  }
  std::string text = "\n" + table.text({1, 2, 3, 4, 5, 6});
  if (job.pairs.size() > kMostRows)
    text += fmt::format("and {} more pairs (--json has all)\n", job.pairs.size() - kMostRows);
  if (job.sampled)
    text +=
        fmt::format("checked {} of {} pairs: a ring and a random sample; --all-pairs checks all\n",
                    job.pairs.size(), job.possible_pairs);
  return text;
}

/// What is equal but for its place is told once, with all places.
std::vector<Finding> with_all_places(std::span<const Finding> findings) {
  std::vector<Finding> told;
  for (const Finding& finding : findings) {
    const auto same = std::ranges::find_if(told, [&](Finding other) {
      other.place = finding.place;
      return other == finding;
    });
    if (same == told.end())
      told.push_back(finding);
    else
      same->place += "; " + finding.place;
  }
  return told;
}

/// A line "    what: text." in lines of at most `width` characters; 0: in one.
std::string paragraph(std::string_view label, std::string_view text, std::size_t width) {
  constexpr std::string_view kIndent = "          ";
  std::string out, line = fmt::format("    {:<5}", label);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string_view word = text.substr(at, end - at);
    if (width > 0 && line.size() + 1 + word.size() > width && line.size() > kIndent.size()) {
      out += line + "\n";
      line = kIndent.substr(1);
    }
    line += fmt::format(" {}", word);
    at = end + 1;
  }
  return fmt::format("{}{}.\n", out, line);
}

std::string findings_text(std::span<const Finding> findings, std::size_t width) {
  if (findings.empty()) return "\nFindings: none\n";
  std::string text = "\nFindings\n";
  for (const Finding& finding : with_all_places(findings)) {
    text += fmt::format("\n  {}: {}\n", name_of(finding.severity), finding.place);
    text += paragraph("what:", finding.what, width);
    text += paragraph("why:", finding.why, width);
    text += paragraph("do:", finding.remedy, width);
  }
  return text;
}

std::string counted(std::size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::size_t count_of(std::span<const Finding> findings, Severity severity) {
  return static_cast<std::size_t>(std::ranges::count(findings, severity, &Finding::severity));
}

std::string closing_line(const JobFacts& job, std::span<const Finding> findings) {
  return fmt::format("\n{}, {}: {}, {}, {}\n", counted(job.hosts.size(), "host"),
                     counted(job.pairs.size(), "pair"),
                     counted(count_of(findings, Severity::kError), "error"),
                     counted(count_of(findings, Severity::kWarning), "warning"),
                     counted(count_of(findings, Severity::kNote), "note"));
}

Json half_json(const std::optional<PairReport>& report) {
  if (!report) return nullptr;
  return {{"reach", name_of(report->reach.outcome)}, {"text", report->reach.text}};
}

}  // namespace

std::string text_of(const JobFacts& job, std::span<const Finding> findings, std::size_t width) {
  return host_table(job) + network_table(job) + port_table(job) + pair_table(job) +
         findings_text(findings, width) + closing_line(job, findings);
}

Json json_of(const JobFacts& job, std::span<const Finding> findings) {
  Json json{{"tutti_format", 1},        {"hosts", Json::array()},
            {"pairs", Json::array()},   {"possible_pairs", job.possible_pairs},
            {"sampled", job.sampled},   {"silent", Json::array()},
            {"findings", Json::array()}};
  for (const HostFacts& host : job.hosts) json["hosts"].push_back(to_json(host));
  for (const PairFacts& pair : job.pairs) {
    Json entry{{"first", job.hosts[pair.pair.first].name},
               {"second", job.hosts[pair.pair.second].name},
               {"first_reaches_second", half_json(pair.of_first)},
               {"second_reaches_first", half_json(pair.of_second)},
               {"tcp", pair.of_first ? to_json(pair.of_first->tcp) : Json(nullptr)},
               {"rdma", pair.of_first && pair.of_first->rdma ? to_json(*pair.of_first->rdma)
                                                             : Json(nullptr)}};
    json["pairs"].push_back(std::move(entry));
  }
  for (const Silent& silent : job.silent)
    json["silent"].push_back({{"rank", silent.rank}, {"name", silent.name}, {"why", silent.why}});
  for (const Finding& finding : findings)
    json["findings"].push_back({{"severity", name_of(finding.severity)},
                                {"place", finding.place},
                                {"what", finding.what},
                                {"why", finding.why},
                                {"remedy", finding.remedy}});
  return json;
}

int exit_code_of(const JobFacts& job, std::span<const Finding> findings, bool strict) {
  if (!job.silent.empty()) return tools::kExitPeer;
  if (count_of(findings, Severity::kError) > 0) return tools::kExitEnvironment;
  if (strict && count_of(findings, Severity::kWarning) > 0) return tools::kExitEnvironment;
  return tools::kExitFine;
}

}  // namespace tutti::doctor
