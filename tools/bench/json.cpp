// The JSON form of a run, written and read back.
#include <map>
#include <tuple>

#include <nlohmann/json.hpp>

#include "src/base/result.hpp"
#include "tools/bench/report.hpp"

namespace tutti::bench {
namespace {

using nlohmann::json;

std::string redop_name(const Shape& shape) {
  return std::string(reduces(shape.test) ? name_of(shape.op) : "none");
}

json timing_json(const Shape& shape, const std::optional<Timing>& timing) {
  if (!timing) return nullptr;
  const double bandwidth = algorithm_bandwidth(shape, timing->mean_us);
  json object = {{"time", timing->mean_us},
                 {"alg_bw", bandwidth},
                 {"bus_bw", bandwidth * bus_factor(shape.test, shape.ranks)},
                 {"nwrong", nullptr},
                 {"p50", timing->p50_us},
                 {"p90", timing->p90_us},
                 {"p99", timing->p99_us},
                 {"iterations", timing->iterations},
                 {"limit_percent", nullptr}};
  if (timing->wrong) object["nwrong"] = *timing->wrong;
  if (timing->loss) object["error"] = {{"max", timing->loss->max}, {"mean", timing->loss->mean}};
  if (timing->limit_percent) object["limit_percent"] = *timing->limit_percent;
  return object;
}

json row_json(const Row& row) {
  const Shape& shape = row.shape;
  json object = {{"collective", test_name(shape.test)},
                 {"size", shown_bytes(shape)},
                 {"count", shape.count},
                 {"type", name_of(shape.type)},
                 {"redop", redop_name(shape)},
                 {"root", rooted(shape.test) ? shape.root : -1},
                 {"algorithm", row.algorithm},
                 {"out_of_place", timing_json(shape, row.out_of_place)},
                 {"in_place", timing_json(shape, row.in_place)}};
  if (!row.timestamp.empty()) object["timestamp"] = row.timestamp;
  return object;
}

/// What limit_percent refers to, or why it is null.
json limit_json(const Report& report) {
  if (!report.limit) return {{"copy_bandwidth", nullptr}, {"reason", report.no_limit}};
  json points = json::array();
  for (const auto& [bytes, gb_s] : report.limit->points)
    points.push_back({{"bytes", bytes}, {"gb_per_s", gb_s}});
  return {{"copy_bandwidth", points}};
}

json config_json(const Options& options) {
  return {{"min_bytes", options.sizes.min},
          {"max_bytes", options.sizes.max},
          {"step_bytes", options.sizes.step},
          {"step_factor", options.sizes.factor},
          {"iters", options.iterations},  // 0: adaptive
          {"warmup_iters", options.warmups},
          {"agg_iters", options.aggregated},
          {"check", options.checks > 0},
          {"blocking", options.barrier},
          {"threads", options.threads},
          {"ranks_per_thread", options.ranks_per_thread},
          {"memory", options.memory == Memory::kAlloc ? "alloc" : "pages"}};
}

/// What tells rows of two runs apart, form included.
using RowKey = std::tuple<std::string, std::size_t, std::string, std::string, int, bool>;

/// May throw nlohmann's exceptions on foreign JSON.
std::map<RowKey, double> read_medians(const json& run) {
  std::map<RowKey, double> medians;
  for (const json& row : run.at("results")) {
    const std::string test = row.value("collective", run.at("collective").get<std::string>());
    for (const bool in_place : {false, true}) {
      const json& timing = row.at(in_place ? "in_place" : "out_of_place");
      if (timing.is_null()) continue;
      medians[{test, row.at("size").get<std::size_t>(), row.at("type").get<std::string>(),
               row.at("redop").get<std::string>(), row.at("root").get<int>(), in_place}] =
          timing.at("p50").get<double>();
    }
  }
  return medians;
}

/// The medians of an earlier run's JSON, which was read from `path`.
Result<std::map<RowKey, double>> medians_of(const json& run, const std::string& path) {
  try {
    return read_medians(run);
  } catch (const json::exception& error) {
    return make_error(Code::kWrongData,
                      "{} is not the JSON of a bench run, as --json writes it: {}", path,
                      error.what());
  }
}

RowKey key_of(const Shape& shape, bool in_place) {
  return {std::string(test_name(shape.test)),   shown_bytes(shape),
          std::string(name_of(shape.type)),     redop_name(shape),
          rooted(shape.test) ? shape.root : -1, in_place};
}

}  // namespace

json to_json(const Report& report) {
  const Options& options = report.options;
  json rows = json::array();
  for (const Row& row : report.rows) rows.push_back(row_json(row));
  return {{"version", 3},
          {"tutti_format", 1},
          {"tutti_version", report.job.tutti_version},
          {"nccl_version", report.job.nccl_version},
          {"start_time", report.start_time},
          {"end_time", report.end_time},
          {"args", report.arguments},
          {"collective", options.tests.size() == 1 ? test_name(options.tests[0]) : "all"},
          {"ranks", report.job.ranks},
          {"hosts", report.job.hosts},
          {"device", options.on_gpus ? "cuda" : "host"},
          {"transport", report.job.transports},
          {"config", config_json(options)},
          {"limit", limit_json(report)},
          {"results", rows},
          {"out_of_bounds", {{"count", report.wrong()}, {"okay", report.wrong() == 0}}},
          {"average_bus_bandwidth", report.average_bus_bandwidth()},
          {"errors", report.errors}};
}

Status check_comparable(const json& earlier, const std::string& path) {
  TUTTI_TRY(medians_of(earlier, path));
  return ok_status();
}

Result<std::vector<Change>> compare(const json& earlier, const Report& report) {
  TUTTI_ASSIGN(const auto medians, medians_of(earlier, report.options.compare));
  std::vector<Change> changes;
  for (const Row& row : report.rows) {
    for (const bool in_place : {false, true}) {
      const auto& timing = in_place ? row.in_place : row.out_of_place;
      const auto before = medians.find(key_of(row.shape, in_place));
      if (!timing || before == medians.end() || before->second <= 0) continue;
      changes.push_back({row.shape, in_place, before->second, timing->p50_us});
    }
  }
  if (changes.empty()) {
    return make_error(Code::kInvalidArgument,
                      "{} has none of this run's rows: compare runs of the same collective, sizes, "
                      "type and ranks",
                      report.options.compare);
  }
  return changes;
}

}  // namespace tutti::bench
