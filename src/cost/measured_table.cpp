#include "src/cost/measured_table.hpp"

#include <algorithm>
#include <charconv>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

#include <nlohmann/json.hpp>

#include "src/base/result.hpp"

namespace tutti {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kTableFormat = "tutti-table";
constexpr std::int64_t kTableVersion = 1;
constexpr std::size_t kLongestName = 64, kLongestMachine = 1024, kHexDigits = 16;

// ---- ranges

/// What ranges of one measurement, or of rival ones, have in common.
auto calls_of(const MeasuredRange& range) { return std::tie(range.collective, range.arrangement); }
auto place_of(const MeasuredRange& range) {
  return std::tie(range.collective, range.arrangement, range.from_bytes);
}

bool overlap(const MeasuredRange& a, const MeasuredRange& b) {
  return calls_of(a) == calls_of(b) && a.from_bytes <= b.to_bytes && b.from_bytes <= a.to_bytes;
}

/// What `of` has on either side of `hole`, which it overlaps.
std::vector<MeasuredRange> without(const MeasuredRange& of, const MeasuredRange& hole) {
  std::vector<MeasuredRange> pieces;
  if (of.from_bytes < hole.from_bytes) {
    pieces.push_back(of);
    pieces.back().to_bytes = hole.from_bytes - 1;
  }
  if (of.to_bytes > hole.to_bytes) {
    pieces.push_back(of);
    pieces.back().from_bytes = hole.to_bytes + 1;
  }
  return pieces;
}

/// Whether they are pieces of one measurement, the second right behind the first.
bool continues(const MeasuredRange& first, const MeasuredRange& second) {
  MeasuredRange both = first;
  both.from_bytes = second.from_bytes;
  both.to_bytes = second.to_bytes;
  return both == second && first.to_bytes + 1 == second.from_bytes;
}

/// `ranges` in the table's order, none of which overlap, with their pieces joined.
std::vector<MeasuredRange> joined(const std::vector<MeasuredRange>& ranges) {
  std::vector<MeasuredRange> whole;
  for (const MeasuredRange& range : ranges) {
    if (!whole.empty() && continues(whole.back(), range))
      whole.back().to_bytes = range.to_bytes;
    else
      whole.push_back(range);
  }
  return whole;
}

// ---- reading

Result<std::uint64_t> number_of(const Json& entry, const char* key, std::uint64_t least,
                                std::uint64_t most) {
  const Json& value = entry.at(key);
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() < least ||
      value.get<std::uint64_t>() > most)
    return make_error(Code::kInvalidArgument, "{}: not an integer within {}..{}", key, least, most);
  return value.get<std::uint64_t>();
}

/// 0 where there is none.
Result<std::uint64_t> optional_number_of(const Json& entry, const char* key, std::uint64_t most) {
  if (!entry.contains(key)) return std::uint64_t{0};
  return number_of(entry, key, 1, most);
}

Result<std::string> text_of(const Json& entry, const char* key, std::size_t most = kLongestName) {
  const Json& value = entry.at(key);
  if (!value.is_string() || value.get_ref<const std::string&>().empty() ||
      value.get_ref<const std::string&>().size() > most)
    return make_error(Code::kInvalidArgument, "{}: not a text of 1 to {} bytes", key, most);
  return value.get<std::string>();
}

Result<Collective> collective_of(const Json& entry) {
  TUTTI_ASSIGN(const std::string name, text_of(entry, "collective"));
  for (int c = 0; c < kCollectives; ++c)
    if (name_of(static_cast<Collective>(c)) == name) return static_cast<Collective>(c);
  return make_error(Code::kInvalidArgument, "collective: there is no '{}'", name);
}

Result<std::uint64_t> topology_of(const Json& entry) {
  if (!entry.contains("topology")) return std::uint64_t{0};
  TUTTI_ASSIGN(const std::string digits, text_of(entry, "topology"));
  std::uint64_t hash = 0;
  const auto [end, failure] =
      std::from_chars(digits.data(), digits.data() + digits.size(), hash, 16);
  const bool whole = failure == std::errc{} && end == digits.data() + digits.size();
  if (!whole || digits.size() != kHexDigits || hash == 0)
    return make_error(Code::kInvalidArgument, "topology: not {} hexadecimal digits, or all 0",
                      kHexDigits);
  return hash;
}

Status check_keys(const Json& entry, const std::set<std::string_view>& known) {
  if (!entry.is_object()) return make_error(Code::kInvalidArgument, "not an object");
  for (const auto& [key, value] : entry.items())
    if (!known.contains(key))
      return make_error(Code::kInvalidArgument, "there is no key '{}' here",
                        key.substr(0, kLongestName));
  return ok_status();
}

Result<MeasuredRange> range_of(const Json& entry) {
  TUTTI_TRY(
      check_keys(entry, {"collective", "ranks", "hosts", "most_on_a_host", "topology", "machines",
                         "mbit_per_s", "from_bytes", "to_bytes", "algorithm", "kernel_reads",
                         "at_bytes", "nanoseconds", "next_nanoseconds", "measured"}));
  const auto count = [&](const char* key) { return number_of(entry, key, 1, INT32_MAX); };
  const auto measured = [&](const char* key) { return number_of(entry, key, 0, kMostMeasured); };
  MeasuredRange range;
  TUTTI_ASSIGN(range.collective, collective_of(entry));
  TUTTI_ASSIGN(const std::uint64_t ranks, count("ranks"));
  TUTTI_ASSIGN(const std::uint64_t hosts, count("hosts"));
  TUTTI_ASSIGN(const std::uint64_t most_on_a_host, count("most_on_a_host"));
  TUTTI_ASSIGN(const std::uint64_t topology, topology_of(entry));
  TUTTI_ASSIGN(const std::uint64_t machines, optional_number_of(entry, "machines", INT32_MAX));
  TUTTI_ASSIGN(const std::uint64_t mbit, optional_number_of(entry, "mbit_per_s", UINT32_MAX));
  range.arrangement = {static_cast<std::int32_t>(ranks),          static_cast<std::int32_t>(hosts),
                       static_cast<std::int32_t>(most_on_a_host), topology,
                       static_cast<std::int32_t>(machines),       static_cast<std::uint32_t>(mbit)};
  TUTTI_ASSIGN(range.from_bytes, measured("from_bytes"));
  TUTTI_ASSIGN(range.to_bytes, measured("to_bytes"));
  TUTTI_ASSIGN(range.way.algorithm, text_of(entry, "algorithm"));
  const Json& reads = entry.at("kernel_reads");
  if (!reads.is_boolean())
    return make_error(Code::kInvalidArgument, "kernel_reads: neither true nor false");
  range.way.kernel_reads = reads.get<bool>();
  TUTTI_ASSIGN(range.at_bytes, measured("at_bytes"));
  TUTTI_ASSIGN(range.nanos, measured("nanoseconds"));
  TUTTI_ASSIGN(range.next_nanos, measured("next_nanoseconds"));
  TUTTI_ASSIGN(const std::uint64_t when, measured("measured"));
  range.measured_s = static_cast<std::int64_t>(when);
  TUTTI_TRY(check(range));
  return range;
}

/// The i-th entry, or an error that names it.
Result<MeasuredRange> range_at(const Json& entries, std::size_t i) {
  std::string why;
  try {
    auto range = range_of(entries[i]);
    if (range) return range;
    why = range.error().what;
  } catch (const Json::exception& error) {  // a key is missing, and its text names it
    why = error.what();
  }
  return make_error(Code::kInvalidArgument, "ranges[{}]: {}", i, why);
}

Result<std::vector<MeasuredRange>> ranges_of(const Json& file) {
  TUTTI_TRY(check_keys(file, {"format", "version", "machine", "ranges"}));
  if (file.at("format") != kTableFormat || file.at("version") != kTableVersion)
    return make_error(Code::kInvalidArgument,
                      "its format is not \"{}\" of version {}: measure anew with tutti tune",
                      kTableFormat, kTableVersion);
  const Json& entries = file.at("ranges");
  if (!entries.is_array() || entries.size() > kMostRanges)
    return make_error(Code::kInvalidArgument, "ranges: not a list of at most {}", kMostRanges);
  std::vector<MeasuredRange> ranges;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    TUTTI_ASSIGN(MeasuredRange range, range_at(entries, i));
    ranges.push_back(std::move(range));
  }
  return ranges;
}

std::string in_quotes(std::string_view text) {
  return Json(text).dump(-1, ' ', true, Json::error_handler_t::replace);
}

std::string line_of(const MeasuredRange& range) {
  const Arrangement& ranks = range.arrangement;
  std::string known;
  if (ranks.topology != 0) known += fmt::format(R"("topology": "{:016x}", )", ranks.topology);
  if (ranks.machines != 0) known += fmt::format(R"("machines": {}, )", ranks.machines);
  if (ranks.mbit_per_s != 0) known += fmt::format(R"("mbit_per_s": {}, )", ranks.mbit_per_s);
  return fmt::format(
      "{{\"collective\": \"{}\", \"ranks\": {}, \"hosts\": {}, \"most_on_a_host\": {}, {}"
      "\"from_bytes\": {}, \"to_bytes\": {}, \"algorithm\": {}, \"kernel_reads\": {}, "
      "\"at_bytes\": {}, \"nanoseconds\": {}, \"next_nanoseconds\": {}, \"measured\": {}}}",
      name_of(range.collective), ranks.ranks, ranks.hosts, ranks.most_on_a_host, known,
      range.from_bytes, range.to_bytes, in_quotes(range.way.algorithm), range.way.kernel_reads,
      range.at_bytes, range.nanos, range.next_nanos, range.measured_s);
}

}  // namespace

std::string describe(const Way& way) {
  return way.kernel_reads ? fmt::format("{} by kernel reads", way.algorithm) : way.algorithm;
}

Arrangement arrangement_of(std::span<const std::int32_t> host_of_ranks) {
  Arrangement arrangement;
  std::map<std::int32_t, std::int32_t> ranks_on;
  for (const std::int32_t host : host_of_ranks)
    arrangement.most_on_a_host = std::max(arrangement.most_on_a_host, ++ranks_on[host]);
  arrangement.ranks = static_cast<std::int32_t>(host_of_ranks.size());
  arrangement.hosts = static_cast<std::int32_t>(ranks_on.size());
  return arrangement;
}

Status check(const MeasuredRange& range) {
  const Arrangement& arrangement = range.arrangement;
  const auto hosts = static_cast<std::int64_t>(arrangement.hosts);
  const bool fit = arrangement.ranks >= 1 && hosts >= 1 && arrangement.most_on_a_host >= 1 &&
                   hosts + arrangement.most_on_a_host - 1 <= arrangement.ranks &&
                   hosts * arrangement.most_on_a_host >= arrangement.ranks;
  if (!fit)
    return make_error(Code::kInvalidArgument, "{} ranks on {} hosts, at most {} on one, cannot be",
                      arrangement.ranks, arrangement.hosts, arrangement.most_on_a_host);
  if (arrangement.machines < 0 || arrangement.machines > hosts)
    return make_error(Code::kInvalidArgument, "{} hosts on {} machines cannot be", hosts,
                      arrangement.machines);
  if (static_cast<int>(range.collective) >= kCollectives)
    return make_error(Code::kInvalidArgument, "there is no collective {}",
                      static_cast<int>(range.collective));
  if (range.from_bytes > range.to_bytes || range.to_bytes > kMostMeasured)
    return make_error(Code::kInvalidArgument, "there are no sizes from {} to {} bytes",
                      range.from_bytes, range.to_bytes);
  if (range.way.algorithm.empty() || range.way.algorithm.size() > kLongestName ||
      range.at_bytes > kMostMeasured || range.nanos > kMostMeasured ||
      range.next_nanos > kMostMeasured || range.measured_s < 0)
    return make_error(Code::kInvalidArgument, "a value is out of its range");
  return ok_status();
}

void MeasuredTable::add(const MeasuredRange& range) {
  place(range);
  keep_newest(kMostRanges);
}

void MeasuredTable::merge(const MeasuredTable& other) {
  for (const MeasuredRange& range : other.ranges_) place(range);
  keep_newest(kMostRanges);
}

void MeasuredTable::place(const MeasuredRange& range) {
  const auto of_calls = std::ranges::equal_range(ranges_, calls_of(range), {}, calls_of);
  // What overlaps the range or touches it; ranges are sorted by both of their ends.
  const auto begin = std::ranges::partition_point(
      of_calls, [&](const MeasuredRange& known) { return known.to_bytes + 1 < range.from_bytes; });
  const auto end = std::partition_point(begin, of_calls.end(), [&](const MeasuredRange& known) {
    return known.from_bytes <= range.to_bytes + 1;
  });
  std::vector<MeasuredRange> added = {range}, all;
  for (auto known = begin; known != end; ++known) {
    if (overlap(*known, range) && known->measured_s <= range.measured_s) {
      std::ranges::move(without(*known, range), std::back_inserter(all));
      continue;
    }
    all.push_back(*known);
    if (added.empty() || !overlap(*known, added.back())) continue;
    const std::vector<MeasuredRange> rest = without(added.back(), *known);
    added.pop_back();  // what is known comes in order, so it cuts the last piece
    added.insert(added.end(), rest.begin(), rest.end());
  }
  all.insert(all.end(), added.begin(), added.end());
  std::ranges::sort(all, {}, place_of);
  const std::vector<MeasuredRange> whole = joined(all);
  ranges_.insert(ranges_.erase(begin, end), whole.begin(), whole.end());
}

void MeasuredTable::keep_newest(std::size_t most) {
  if (ranges_.size() <= most) return;
  std::ranges::sort(ranges_, {}, [](const MeasuredRange& range) {
    return std::tuple(-range.measured_s, place_of(range));
  });
  ranges_.resize(most);
  std::ranges::sort(ranges_, {}, place_of);
}

void MeasuredTable::keep_measured(std::int64_t first_s, std::int64_t last_s) {
  std::erase_if(ranges_, [&](const MeasuredRange& range) {
    return range.measured_s < first_s || range.measured_s > last_s;
  });
}

MeasuredTable MeasuredTable::of_ranks(std::int32_t ranks, std::size_t most) const {
  MeasuredTable table;
  for (const MeasuredRange& range : ranges_)
    if (range.arrangement.ranks == ranks) table.ranges_.push_back(range);
  table.keep_newest(most);
  return table;
}

const MeasuredRange* MeasuredTable::find_exactly(Collective collective,
                                                 const Arrangement& arrangement,
                                                 std::uint64_t bytes) const {
  const auto after =
      std::ranges::upper_bound(ranges_, std::tie(collective, arrangement, bytes), {}, place_of);
  if (after == ranges_.begin()) return nullptr;
  const MeasuredRange& range = *std::prev(after);
  const bool holds =
      calls_of(range) == std::tie(collective, arrangement) && bytes <= range.to_bytes;
  return holds ? &range : nullptr;
}

const MeasuredRange* MeasuredTable::find(Collective collective, const Arrangement& arrangement,
                                         std::uint64_t bytes) const {
  const MeasuredRange* const exact = find_exactly(collective, arrangement, bytes);
  if (exact != nullptr || arrangement.topology == 0) return exact;
  Arrangement anywhere = arrangement;
  anywhere.topology = 0;
  return find_exactly(collective, anywhere, bytes);
}

std::string MeasuredTable::text() const {
  std::string lines;
  for (const MeasuredRange& range : ranges_)
    lines += fmt::format("{}\n  {}", lines.empty() ? "" : ",", line_of(range));
  const std::string of =
      machine.empty() ? "" : fmt::format("\n \"machine\": {},", in_quotes(machine));
  return fmt::format("{}{}\n \"ranges\": [{}]}}\n", kTableHead, of, lines);
}

Result<MeasuredTable> MeasuredTable::parse(std::string_view text) {
  if (text.size() > kMostTableBytes)
    return make_error(Code::kInvalidArgument, "{} bytes are too many for a table; at most {} fit",
                      text.size(), kMostTableBytes);
  MeasuredTable table;
  try {
    const Json file = Json::parse(text);
    TUTTI_ASSIGN(table.ranges_, ranges_of(file));
    if (file.contains("machine")) {
      TUTTI_ASSIGN(table.machine, text_of(file, "machine", kLongestMachine));
    }
  } catch (const Json::exception& error) {  // its text names line and column
    return make_error(Code::kInvalidArgument, "{}", error.what());
  }
  std::ranges::sort(table.ranges_, {}, place_of);
  const auto twice = std::ranges::adjacent_find(table.ranges_, overlap);
  if (twice != table.ranges_.end())
    return make_error(Code::kInvalidArgument,
                      "ranges: {} over {} ranks on {} hosts is said twice from {} bytes",
                      name_of(twice->collective), twice->arrangement.ranks,
                      twice->arrangement.hosts, std::next(twice)->from_bytes);
  table.ranges_ = joined(table.ranges_);
  return table;
}

}  // namespace tutti
