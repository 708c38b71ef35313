#include "src/cost/calibration.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/base/result.hpp"

namespace tutti {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kCalibrationFormat = "tutti-calibration";
constexpr int kVersion = 1;
constexpr double kMostCost = 1e9;  // of any time or bandwidth
constexpr double kLeastBandwidth = 1e-9;
constexpr std::uint32_t kMostCpus = 1U << 20U;
constexpr int kDeepest = 2;

/// Where a number of the file belongs.
struct Entry {
  std::string_view group;  ///< "" for the text itself
  std::string_view key;
  double* value;
};

std::array<Entry, 11> entries_of(Calibration& calibration) {
  return {{
      {"", "call_us", &calibration.call_us},
      {"", "step_us", &calibration.step_us},
      {"", "copy_ps_per_byte", &calibration.copy_ps_per_byte},
      {"", "reduce_ps_per_byte", &calibration.reduce_ps_per_byte},
      {"inside", "send_us", &calibration.inside.send_us},
      {"inside", "receive_us", &calibration.inside.receive_us},
      {"inside", "latency_us", &calibration.inside.latency_us},
      {"between", "send_us", &calibration.between.send_us},
      {"between", "receive_us", &calibration.between.receive_us},
      {"between", "latency_us", &calibration.between.latency_us},
      {"between", "bandwidth_gbs", &calibration.between_gbs},
  }};
}

std::string name_of(const Entry& entry) {
  return entry.group.empty() ? std::string(entry.key)
                             : fmt::format("{}.{}", entry.group, entry.key);
}

template <class... Args>
Error refused(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(Code::kInvalidArgument, format, std::forward<Args>(args)...);
}

/// Refuses while it is parsed what Json would not keep: keys that are there twice, and what lies
/// deeper than anything of a calibration.
class Watch {
 public:
  bool operator()(int depth, Json::parse_event_t event, const Json& value) {
    if (depth > kDeepest) wrong_ = "it is nested deeper than a calibration";
    if (event == Json::parse_event_t::object_start && depth < kDeepest) keys_[depth].clear();
    if (event != Json::parse_event_t::key || depth > kDeepest) return wrong_.empty();
    const auto& key = value.get_ref<const std::string&>();
    if (!keys_[depth - 1].insert(key).second)
      wrong_ =
          fmt::format("the key {} is there twice",
                      Json(key.substr(0, 64)).dump(-1, ' ', true, Json::error_handler_t::replace));
    return wrong_.empty();
  }
  [[nodiscard]] const std::string& wrong() const { return wrong_; }

 private:
  std::array<std::set<std::string>, kDeepest> keys_;
  std::string wrong_;
};

/// Exactly these keys.
Status check_keys(const Json& object, std::string_view where, std::span<const std::string> keys) {
  if (!object.is_object()) return refused("{}: must be an object", where);
  for (const auto& [key, value] : object.items())
    if (std::ranges::find(keys, key) == keys.end())
      return refused("{}: a key is none of {}", where, fmt::join(keys, ", "));
  for (const std::string& key : keys)
    if (!object.contains(key)) return refused("{}: {} is missing", where, key);
  return ok_status();
}

Status check_shape(const Json& text) {
  Calibration any;
  std::vector<std::string> whole = {"format", "version", "measured_on", "cpus_per_host"};
  for (const std::string_view group : {"inside", "between"}) {
    std::vector<std::string> keys;
    for (const Entry& entry : entries_of(any))
      if (entry.group == group) keys.emplace_back(entry.key);
    whole.emplace_back(group);
    if (text.is_object() && text.contains(group))
      TUTTI_TRY(check_keys(text[std::string(group)], group, keys));
  }
  for (const Entry& entry : entries_of(any))
    if (entry.group.empty()) whole.emplace_back(entry.key);
  return check_keys(text, "the text", whole);
}

Result<Calibration> calibration_of(const Json& text) {
  if (text.is_object() && text.value("format", Json()) != kCalibrationFormat)
    return refused("format: must be \"{}\", or this is another kind of file", kCalibrationFormat);
  if (text.is_object() && text.value("version", Json()) != kVersion)
    return refused("version: must be {}, which is all that this program reads", kVersion);
  TUTTI_TRY(check_shape(text));
  Calibration calibration;
  for (const Entry& entry : entries_of(calibration)) {
    const Json& group = entry.group.empty() ? text : text[std::string(entry.group)];
    const Json& value = group[std::string(entry.key)];
    const double least = entry.key == "bandwidth_gbs" ? kLeastBandwidth : 0;
    if (!value.is_number() || !(value.get<double>() >= least && value.get<double>() <= kMostCost))
      return refused("{}: must be a number from {:g} to {:g}", name_of(entry), least, kMostCost);
    *entry.value = value.get<double>() + 0.0;  // no -0, which would be read back as another number
  }
  const Json& cpus = text["cpus_per_host"];
  if (!cpus.is_number_unsigned() || cpus.get<std::uint64_t>() < 1 ||
      cpus.get<std::uint64_t>() > kMostCpus)
    return refused("cpus_per_host: must be a whole number from 1 to {}", kMostCpus);
  calibration.cpus_per_host = cpus.get<std::uint32_t>();
  if (!text["measured_on"].is_string() ||
      text["measured_on"].get_ref<const std::string&>().size() > kLongestMeasuredOn)
    return refused("measured_on: must be a text of at most {} bytes", kLongestMeasuredOn);
  calibration.measured_on = text["measured_on"].get<std::string>();
  return calibration;
}

/// "line 3 column 14" of the character at `byte`, counted from 1.
std::string position(std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, byte == 0 ? 0 : byte - 1);
  const std::size_t last_end = before.rfind('\n');
  return fmt::format("line {} column {}", std::ranges::count(before, '\n') + 1,
                     before.size() - (last_end == std::string_view::npos ? 0 : last_end + 1) + 1);
}

}  // namespace

std::string calibration_json(const Calibration& calibration) {
  Calibration copy = calibration;
  const auto numbers = [&](std::string_view group) {
    std::string text;
    for (const Entry& entry : entries_of(copy))
      if (entry.group == group)
        text += fmt::format("{}\"{}\": {}", text.empty() ? "" : ", ", entry.key, *entry.value);
    return text;
  };
  return fmt::format(
      "{{\"format\": \"{}\", \"version\": {},\n \"measured_on\": {},\n {},\n"
      " \"cpus_per_host\": {},\n \"inside\": {{{}}},\n \"between\": {{{}}}}}\n",
      kCalibrationFormat, kVersion,
      Json(calibration.measured_on).dump(-1, ' ', true, Json::error_handler_t::replace),
      numbers(""), calibration.cpus_per_host, numbers("inside"), numbers("between"));
}

Result<Calibration> parse_calibration(std::string_view text) {
  if (text.size() > kMostCalibrationBytes)
    return refused("{} bytes are too many for a calibration: at most {} are read", text.size(),
                   kMostCalibrationBytes);
  Watch watch;
  try {
    const Json json = Json::parse(text, std::ref(watch));
    if (!watch.wrong().empty()) return refused("{}", watch.wrong());
    return calibration_of(json);
  } catch (const Json::parse_error& error) {
    return refused("{}: this is no JSON", position(text, error.byte));
  } catch (const Json::exception& error) {  // a number beyond all that is accepted
    return refused("{}", error.what());
  }
}

}  // namespace tutti
