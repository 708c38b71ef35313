#include "src/base/settings.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include <unistd.h>

#include "src/base/nearest.hpp"
#include "src/base/result.hpp"

namespace tutti {
namespace {

using Kind = SettingInfo::Kind;

constexpr SettingInfo kSettings[] = {
    // Deadlines
    {"TIMEOUT", Kind::kSeconds, "0", "s", "0..604800", "",
     "Longest time an operation may take; 0 waits for as long as every rank is alive, as NCCL "
     "does."},
    {"INIT_TIMEOUT", Kind::kSeconds, "60", "s", "0.1..86400", "",
     "Longest time that init, split, shrink, connect and destroy may take. While it is not set, "
     "init "
     "waits for late ranks without limit, as long as the process that made the unique id lives, "
     "and "
     "the 60 s apply to its other steps."},
    {"LIVENESS", Kind::kSeconds, "15", "s", "0.1..3600", "",
     "Silence after which a stopped or unreachable rank counts as failed."},

    // Who and where
    {"BOOTSTRAP", Kind::kString, "", "", "", "",
     "URL of the rendezvous: env://, tcp://host:port, file:///path, pmi://, pmix://; empty detects "
     "the launcher."},
    {"COMM_ID", Kind::kString, "", "", "", "NCCL_COMM_ID",
     "host:port where rank 0 listens, whatever the unique id says; the ranks may then make an id "
     "each instead of passing one on (on several hosts that needs TUTTI_JOB_KEY)."},
    {"COMM_BLOCKING", Kind::kChoice, "config", "", "config|0|1", "NCCL_COMM_BLOCKING",
     "0: communicators whose calls return ncclInProgress and finish in the background; 1: ones "
     "whose calls wait; config: as the caller's ncclConfig_t says."},
    {"JOB_KEY", Kind::kString, "", "", "", "",
     "Secret that all ranks of a job share and prove to each other.", true},
    {"INSECURE", Kind::kBool, "0", "", "0|1", "",
     "1 lets a job of several hosts run without any shared secret: only on a trusted network."},
    {"HOSTID", Kind::kString, "", "", "", "NCCL_HOSTID",
     "Identity of this host; ranks with equal ones, in one network namespace, share memory. Empty: "
     "the boot id."},
    {"SOCKET_IFNAME", Kind::kString, "", "", "", "NCCL_SOCKET_IFNAME",
     "Interfaces to use: comma-separated prefixes, '=' before exact names, '^' before excluded "
     "ones."},
    {"SOCKET_FAMILY", Kind::kChoice, "any", "", "any|AF_INET|AF_INET6", "NCCL_SOCKET_FAMILY",
     "Address family of the sockets."},

    {"TCP_SOCKETS", Kind::kInt, "1", "", "1..16", "",
     "TCP connections between two processes, over which large messages are spread: more than one "
     "helps where a single flow cannot fill the link, as in most clouds. The process that dials "
     "decides, so give all the same."},
    {"TCP_INTERFACES", Kind::kInt, "1", "", "1..16", "",
     "Network interfaces over which the TCP connections of two processes are spread, the best ones "
     "of SOCKET_IFNAME first. Each should be in a subnet of its own. Give all the same."},

    // RDMA
    {"TRANSPORT", Kind::kChoice, "tcp", "", "auto|verbs|ucx|nccl_net|tcp", "",
     "What carries data between hosts: tcp; verbs (InfiniBand, RoCE), ucx (what libucp knows) or "
     "nccl_net (a network plugin of NCCL), or an error where it cannot be used; auto, nccl_net if "
     "NET_PLUGIN is set, else verbs where there is a device, else ucx where it has more than TCP, "
     "else tcp. RDMA was never run on hardware, so tcp is the default."},
    {"NET_PLUGIN", Kind::kString, "", "", "", "NCCL_NET_PLUGIN",
     "Network plugins of NCCL for nccl_net, the first that works: comma-separated names of "
     "libraries, where X also stands for libnccl-net-X.so. Empty: libnccl-net.so; none: no "
     "plugin."},
    {"NET_PLUGIN_TRIAL", Kind::kBool, "1", "", "0|1", "",
     "1 tries a network plugin in a child process first, because one that crashes would end this "
     "process; 0 loads it at once."},
    {"COLLNET_ENABLE", Kind::kBool, "0", "", "0|1", "NCCL_COLLNET_ENABLE",
     "1 lets a collective plugin of NCCL, such as SHARP's, add in the network for calls between "
     "hosts, as INNETWORK says. It is one of the libraries of NET_PLUGIN. All ranks need it."},
    {"IB_HCA", Kind::kString, "", "", "", "NCCL_IB_HCA",
     "RDMA devices and ports to use: comma-separated prefixes such as mlx5_0,mlx5_1:1; '=' before "
     "exact names, '^' before excluded ones."},
    {"IB_GID_INDEX", Kind::kInt, "-1", "", "-1..255", "NCCL_IB_GID_INDEX",
     "Entry of the GID table by which a RoCE port is reached; -1 takes the RoCE v2 address that "
     "reaches farthest."},
    {"IB_TC", Kind::kInt, "0", "", "0..255", "NCCL_IB_TC",
     "Traffic class of RDMA packets; on RoCE its upper six bits are the DSCP, which switches use "
     "to "
     "choose a lossless queue."},
    {"IB_SL", Kind::kInt, "0", "", "0..15", "NCCL_IB_SL", "Service level on InfiniBand."},
    {"IB_TIMEOUT", Kind::kInt, "14", "", "1..31", "NCCL_IB_TIMEOUT",
     "An RDMA packet waits 4.096 us x 2^this for its answer before it is sent again. A path that "
     "fails is replaced, so this need not outlast a switch that restarts."},
    {"IB_RETRY_CNT", Kind::kInt, "7", "", "0..7", "NCCL_IB_RETRY_CNT",
     "How often an RDMA packet is sent again before its path is given up."},
    {"IB_QPS_PER_CONNECTION", Kind::kInt, "1", "", "1..4", "NCCL_IB_QPS_PER_CONNECTION",
     "Queue pairs between two processes on each pair of ports: more than one helps where the "
     "network spreads flows over links, as bonded ports and ECMP do."},

    // GPUs
    {"DEVICE", Kind::kChoice, "auto", "", "auto|host|cuda", "",
     "Whose memory communicators work on: host, CPU processes and their memory; cuda, GPUs, or an "
     "error where there is none; auto, GPUs where the CUDA driver finds one."},
    {"CUDA_SLOT_BYTES", Kind::kBytes, "4M", "bytes", "64K..1G", "",
     "Pinned memory of the host that a step of a call on GPU buffers passes through; a rank has "
     "two, "
     "and takes no memory of its GPU. The same on all ranks."},

    {"P2P_DISABLE", Kind::kBool, "0", "", "0|1", "NCCL_P2P_DISABLE",
     "1 keeps GPUs from reaching each other's memory, so that calls on them pass through memory of "
     "the host, and a communicator takes none of theirs (else 24 MiB of each). It counts for all "
     "ranks if one has it."},
    {"P2P_LEVEL", Kind::kChoice, "SYS", "", "LOC|NVL|PIX|PXB|PHB|SYS", "NCCL_P2P_LEVEL",
     "How far apart GPUs may be that reach each other's memory, in NCCL's words: never, over "
     "NVLink, through one PCI switch, through several, through a CPU, between CPUs. The nearest "
     "that a rank has counts."},

    {"GPUDIRECT", Kind::kBool, "1", "", "0|1", "",
     "0 keeps NICs from reading and writing memory of GPUs, so that calls between hosts pass "
     "through memory of the host: messages of a rank that says so, and collectives of all ranks if "
     "one says so."},

    // How
    {"SHM", Kind::kBool, "1", "", "0|1", "",
     "0 turns shared memory off, so that ranks of one host talk over sockets."},
    {"DIRECT", Kind::kBool, "1", "", "0|1", "",
     "0 keeps ranks of one host from reading and writing each other's buffers where they lie, "
     "which "
     "saves copies where all are mapped (ncclMemAlloc, threads) or the kernel copies."},
    {"SIMD", Kind::kChoice, "auto", "", "auto|scalar|baseline|avx2|avx512", "",
     "Instruction set of the reduction kernels; auto is the best one this CPU has."},
    {"ALGO", Kind::kString, "", "", "", "NCCL_ALGO",
     "Algorithm for every collective that it supports (see `tutti algo list`), or file:PATH: a "
     "schedule of your own, in any format that `tutti algo verify` reads, for the calls that it is "
     "for. COLLECTIVE:ALGORITHM;... says it for each; empty: the tuner chooses."},
    {"COMPRESS", Kind::kString, "", "", "", "",
     "What float data travels as, and loses precision by: COLLECTIVE:FORMAT,... as in "
     "all_reduce:int8:block=128,reduce_scatter:int4 (docs/fewer_bytes.md has all formats). Sums, "
     "averages and copies of float, half and bfloat16 are compressed, everything else is sent as "
     "it is. Rank 0's counts. Nothing is compressed unless this or the program asks for it."},
    {"PROTO", Kind::kString, "", "", "", "NCCL_PROTO",
     "Protocols in NCCL's words: LL, LL128, Simple. They are understood and change nothing, which "
     "is "
     "said once: how data moves follows from its size and from where the ranks are."},
    {"DETERMINISTIC", Kind::kBool, "0", "", "0|1", "",
     "1 adds in one fixed order over ranks at every size, whatever the layout of hosts."},
    {"SWITCH", Kind::kString, "", "", "", "",
     "Switches that add in software, HOST:PORT,... as `tutti switch` prints: hosts send their data "
     "there once, instead of to each other. Groups of ranks take turns at them. All ranks need "
     "it. Ranks that name different switches need one more above these: `tutti switch --above`."},
    {"SWITCH_KEY", Kind::kString, "", "", "", "",
     "64 hexadecimal digits that the switch and all ranks share: `openssl rand -hex 32`.", true},
    {"SWITCH_SLOTS", Kind::kInt, "128", "", "1..4096", "",
     "Packets of 1408 bytes that a rank has under way to a switch: bandwidth times round trip."},
    {"INNETWORK", Kind::kChoice, "auto", "", "off|auto|sum", "",
     "What a switch or a plugin that adds may do for calls between hosts: nothing; auto, what "
     "gives the same bits as without it; sum, sums of floats as well, which it adds in another "
     "order. Rank 0's counts."},
    {"CHECKSUM", Kind::kBool, "0", "", "0|1", "",
     "1 checks every message by a CRC32C of each 128 KiB, so what the network or a host's memory "
     "damages becomes an error that names both ranks. Rank 0's counts. What ranks of a host read "
     "in "
     "each other's memory is no message."},
    {"STAGING_BYTES", Kind::kBytes, "1M", "bytes", "64K..1G", "",
     "Memory per rank and region that data passes through between ranks of one host; it should "
     "stay in the cache."},

    {"TOPO_FILE", Kind::kString, "", "", "", "NCCL_TOPO_FILE",
     "File that describes this host, in any format that `tutti topo` reads, in place of what is "
     "found out; that of the first rank of each host counts."},
    {"TOPO_DUMP_FILE", Kind::kString, "", "", "", "NCCL_TOPO_DUMP_FILE",
     "File for the topology of all hosts of each communicator that is not a part of another: JSON "
     "if its name ends in .json, else NCCL's XML."},
    {"TOPO_DUMP_FILE_RANK", Kind::kInt, "0", "", "0..2147483647", "NCCL_TOPO_DUMP_FILE_RANK",
     "Rank that writes TUTTI_TOPO_DUMP_FILE."},
    {"TUNING", Kind::kChoice, "measure", "", "measure|off", "",
     "How a call is run of which several ways give the same result: measure tries them in the "
     "first calls of a size and keeps to the fastest; off guesses. Rank 0's counts."},
    {"TUNING_FILE", Kind::kString, "auto", "", "", "",
     "File that keeps what was measured, for a week; auto: one for each kind of machine in "
     "${XDG_CACHE_HOME:-~/.cache}/tutti; none: every process measures."},
    {"TUNING_TABLE", Kind::kString, "auto", "", "", "",
     "File with what `tutti tune` measured, which then chooses the algorithms, those of float sums "
     "too; auto: beside the one of TUTTI_TUNING_FILE; none: there is no table. Rank 0's counts."},
    {"CALIBRATION", Kind::kString, "", "", "", "",
     "File by `tutti calibrate`: what the machines and links cost. Between hosts the model then "
     "proposes algorithms where rules would choose, those of float sums too. Rank 0's counts."},

    // Diagnosis
    {"CHECK", Kind::kBool, "0", "", "0|1", "NCCL_CHECK_POINTERS",
     "1 tests the buffers of every call, and errors show its arguments and where it was made; each "
     "call takes tens of microseconds longer."},
    {"DEBUG", Kind::kChoice, "WARN", "", "NONE|VERSION|WARN|INFO|ABORT|TRACE", "NCCL_DEBUG",
     "How much is logged."},
    {"DEBUG_SUBSYS", Kind::kString, "INIT,BOOTSTRAP,ENV", "", "", "NCCL_DEBUG_SUBSYS",
     "Subsystems whose INFO lines are logged; '^' first turns the list into exclusions; ALL."},
    {"DEBUG_FILE", Kind::kString, "", "", "", "NCCL_DEBUG_FILE",
     "File for the log (%h host, %p process id); empty: standard error."},
};

constexpr std::size_t kLongestText = 4096;

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

bool same_ignoring_case(std::string_view a, std::string_view b) {
  const auto lower = [](unsigned char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; };
  return std::ranges::equal(a, b, {}, lower, lower);
}

template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return value;
}

/// "64K", "64KB", "64KiB", "65536": binary multiples, as in nccl-tests.
std::optional<std::int64_t> parse_bytes(std::string_view text) {
  if (text.ends_with("iB")) text.remove_suffix(2);
  if (text.ends_with('B')) text.remove_suffix(1);
  int shift = 0;
  if (!text.empty()) {
    constexpr std::string_view kSuffixes = "KMGT";
    const auto at = kSuffixes.find(static_cast<char>(text.back() & ~0x20));
    if (at != std::string_view::npos && text.back() > '9') {
      shift = 10 * (static_cast<int>(at) + 1);
      text.remove_suffix(1);
    }
  }
  const auto number = parse_number<std::int64_t>(text);
  if (!number || *number < 0 || *number > (INT64_MAX >> shift)) return std::nullopt;
  return *number << shift;
}

/// The value as a number on the scale of its range; nullopt when it does not parse.
std::optional<double> magnitude(Kind kind, std::string_view text) {
  const auto widen = [](auto number) {
    return number ? std::optional(static_cast<double>(*number)) : std::nullopt;
  };
  switch (kind) {
    case Kind::kInt:
      return widen(parse_number<std::int64_t>(text));
    case Kind::kBytes:
      return widen(parse_bytes(text));
    case Kind::kSeconds:
      return parse_number<double>(text);
    default:
      return std::nullopt;
  }
}

bool within(Kind kind, double value, std::string_view range) {
  const std::size_t dots = range.find("..");
  if (dots == std::string_view::npos) return true;
  return value >= magnitude(kind, range.substr(0, dots)) &&
         value <= magnitude(kind, range.substr(dots + 2));
}

std::string_view expected(Kind kind) {
  switch (kind) {
    case Kind::kInt:
      return "an integer in";
    case Kind::kSeconds:
      return "a number of seconds in";
    case Kind::kBytes:
      return "a number of bytes (K, M, G, T) in";
    default:
      return "one of";
  }
}

Error bad_value(const SettingInfo& info, std::string_view text, std::string_view source) {
  const std::string shown = info.secret ? "its value" : fmt::format("'{}'", text.substr(0, 64));
  return make_error(Code::kInvalidArgument, "{}: {} is not {} {}; correct the variable or unset it",
                    source, shown, expected(info.kind), info.range);
}

const SettingInfo* find(std::string_view name) {
  const auto at = std::ranges::find(kSettings, name, &SettingInfo::name);
  return at == std::end(kSettings) ? nullptr : &*at;
}

}  // namespace

std::span<const SettingInfo> all_settings() { return kSettings; }

std::string_view name_of(SettingInfo::Kind kind) {
  constexpr std::string_view kNames[] = {"integer", "flag", "text", "seconds", "bytes", "choice"};
  return kNames[static_cast<std::size_t>(kind)];
}

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe)
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

std::vector<std::string> process_environment_names() {
  std::vector<std::string> names;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    names.emplace_back(text.substr(0, text.find('=')));
  }
  return names;
}

std::vector<UnknownSetting> unknown_settings(std::span<const std::string> names) {
  std::vector<std::string> known;
  for (const SettingInfo& info : kSettings) {
    known.push_back("TUTTI_" + std::string(info.name));
    if (!info.nccl_name.empty()) known.emplace_back(info.nccl_name);
  }
  std::vector<UnknownSetting> unknown;
  for (const std::string& name : names) {
    if (!name.starts_with("TUTTI_") && !name.starts_with("NCCL_")) continue;
    if (std::ranges::find(known, name) != known.end()) continue;
    unknown.push_back({name, nearest(name, known)});
  }
  std::ranges::sort(unknown, {}, &UnknownSetting::name);
  return unknown;
}

Result<Settings::Value> Settings::parse(const SettingInfo& info, std::string text,
                                        std::string source) {
  Value value{.text = std::move(text), .source = std::move(source)};
  if (info.kind == Kind::kString) {
    if (value.text.size() > kLongestText)
      return make_error(Code::kInvalidArgument, "{}: {} characters are too many; at most {} fit",
                        value.source, value.text.size(), kLongestText);
    return value;
  }
  if (info.kind == Kind::kBool || info.kind == Kind::kChoice) {
    const auto choices = split(info.range, '|');
    const auto chosen = std::ranges::find_if(
        choices, [&](std::string_view choice) { return same_ignoring_case(choice, value.text); });
    if (chosen == choices.end()) return bad_value(info, value.text, value.source);
    value.text = *chosen;
    value.integer = info.kind == Kind::kBool ? (*chosen == "1") : chosen - choices.begin();
    return value;
  }
  const std::optional<double> number = magnitude(info.kind, value.text);
  if (!number || !within(info.kind, *number, info.range))
    return bad_value(info, value.text, value.source);
  value.seconds = *number;
  value.integer = static_cast<std::int64_t>(*number);
  return value;
}

Result<Settings> Settings::load(const Environment& environment) {
  Settings settings;
  for (const SettingInfo& info : kSettings) {
    std::string text(info.default_value);
    std::string source = "default";
    for (const std::string& name :
         {"TUTTI_" + std::string(info.name), std::string(info.nccl_name)}) {
      if (name.empty()) continue;
      auto given = environment(name);
      if (!given || given->empty()) continue;
      text = *std::move(given);
      source = name;
      break;
    }
    TUTTI_ASSIGN(Value value, parse(info, std::move(text), std::move(source)));
    settings.values_.emplace(info.name, std::move(value));
  }
  return settings;
}

const Settings::Value& Settings::value(std::string_view name) const {
  if (const auto at = values_.find(name); at != values_.end()) return at->second;
  static const Settings kDefaults =
      *load([](const std::string&) -> std::optional<std::string> { return std::nullopt; });
  return kDefaults.values_.at(std::string(name));
}

std::int64_t Settings::integer(std::string_view name) const { return value(name).integer; }
bool Settings::flag(std::string_view name) const { return value(name).integer != 0; }
const std::string& Settings::text(std::string_view name) const { return value(name).text; }
double Settings::seconds(std::string_view name) const { return value(name).seconds; }
const std::string& Settings::source(std::string_view name) const { return value(name).source; }

std::string Settings::displayed(std::string_view name) const {
  const std::string& text = value(name).text;
  const SettingInfo* info = find(name);
  return info != nullptr && info->secret && !text.empty() ? "(set, not shown)" : text;
}

}  // namespace tutti
