#include "src/topo/model/aggregation.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "src/base/result.hpp"
#include "src/topo/model/words.hpp"

namespace tutti::topo {
namespace {

/// One number of an aggregation.
struct AggregationNumber {
  std::string_view name;
  double most = 0;
  bool is_whole = false;
  double (*get)(const Aggregation&);
  void (*set)(Aggregation&, double);
};

constexpr std::array<AggregationNumber, 6> kAggregationNumbers = {{
    {"trees", 1024, true, [](const Aggregation& a) { return double(a.trees); },
     [](Aggregation& a, double value) { a.trees = static_cast<std::uint32_t>(value); }},
    {"outstanding", 65536, true, [](const Aggregation& a) { return double(a.outstanding); },
     [](Aggregation& a, double value) { a.outstanding = static_cast<std::uint32_t>(value); }},
    {"latency", kMostLatency, false, [](const Aggregation& a) { return a.latency; },
     [](Aggregation& a, double value) { a.latency = value; }},
    {"rate", kMostBandwidth, false, [](const Aggregation& a) { return a.rate; },
     [](Aggregation& a, double value) { a.rate = value; }},
    {"window", 1e15, false, [](const Aggregation& a) { return a.window; },
     [](Aggregation& a, double value) { a.window = value; }},
    {"parts", 1, true, [](const Aggregation& a) { return a.sums_in_parts ? 1.0 : 0.0; },
     [](Aggregation& a, double value) { a.sums_in_parts = value != 0; }},
}};

Status set_number(Aggregation& aggregation, std::string_view text,
                  std::vector<std::string_view>& seen) {
  const std::size_t equals = std::min(text.find('='), text.size());
  const std::string_view key = text.substr(0, equals);
  const auto number = std::ranges::find(kAggregationNumbers, key, &AggregationNumber::name);
  if (number == kAggregationNumbers.end())
    return make_error(
        Code::kInvalidArgument,
        "{} is none of trees, outstanding, latency, rate, window and parts with `=` and a number",
        shown(text));
  if (std::ranges::find(seen, key) != seen.end())
    return make_error(Code::kInvalidArgument, "{} is there twice", shown(key));
  seen.push_back(key);
  const std::string_view digits = text.substr(std::min(equals + 1, text.size()));
  const char* const end = digits.data() + digits.size();
  double value = 0;
  const auto [stop, wrong] = std::from_chars(digits.data(), end, value);
  const double least = key == "trees" ? 1 : 0;
  const bool is_number = wrong == std::errc{} && stop == end && value >= least &&
                         value <= number->most && (!number->is_whole || value == std::floor(value));
  if (!is_number)
    return make_error(Code::kInvalidArgument, "{} must be a {}number from {:g} to {:g}, not {}",
                      key, number->is_whole ? "whole " : "", least, number->most, shown(digits));
  number->set(aggregation, value);
  return ok_status();
}

}  // namespace

double Aggregation::rate_with(double round_trip) const {
  if (window == 0 || round_trip == 0) return rate;
  const double of_window = window / round_trip / 1e3;  // bytes/us to GB/s
  return rate == 0 ? of_window : std::min(rate, of_window);
}

Result<Aggregation> parse_aggregation(std::string_view text) {
  Aggregation aggregation;
  std::vector<std::string_view> seen;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    TUTTI_TRY(set_number(aggregation, text.substr(0, comma), seen));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return aggregation;
}

std::vector<AggregationValue> values_of(const Aggregation& aggregation) {
  std::vector<AggregationValue> values;
  for (const AggregationNumber& number : kAggregationNumbers) {
    const double value = number.get(aggregation);
    if (value != number.get(Aggregation{})) values.push_back({number.name, value});
  }
  return values;
}

std::string text_of(const Aggregation& aggregation) {
  std::string text = fmt::format("trees={}", aggregation.trees);
  for (const auto& [name, value] : values_of(aggregation))
    if (name != "trees") text += fmt::format(",{}={}", name, value);
  return text;
}

Result<std::optional<Aggregation>> aggregation_of(const Topology& topology, NodeId node) {
  const auto& attributes = topology.node(node).attributes;
  const auto found = std::ranges::find(attributes, kAggregationKey, &Attribute::key);
  if (found == attributes.end()) return std::optional<Aggregation>();
  const Result<Aggregation> aggregation = parse_aggregation(found->value);
  if (!aggregation)
    return make_error(Code::kInvalidArgument, "`{}` of {}: {}", kAggregationKey,
                      full_name(topology, node), aggregation.error().what);
  return std::optional(*aggregation);
}

}  // namespace tutti::topo
