#include "tools/train/step_log.hpp"

#include <cmath>
#include <limits>
#include <utility>

#include <nlohmann/json.hpp>

#include "src/base/result.hpp"

namespace tutti::trainer {
namespace {

using Json = nlohmann::ordered_json;
using Parsed = nlohmann::json;

constexpr std::string_view kFormat = "tutti-train-log";
constexpr std::uint64_t kLogVersion = 1;
constexpr int kDeepest = 3;
constexpr std::size_t kMostLines = 1 << 24;
constexpr std::uint64_t kMostLoggedSteps = 1'000'000'000'000;
constexpr double kMilli = 1e3;

/// JSON has no infinity and no NaN: null stands for them.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

double real(const Parsed& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return std::numeric_limits<double>::quiet_NaN();
  return found->get<double>();
}

std::uint64_t whole(const Parsed& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || !found->is_number_unsigned() ? 0 : found->get<std::uint64_t>();
}

std::string text(const Parsed& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || !found->is_string() ? "" : found->get<std::string>();
}

std::optional<double> maybe(const Parsed& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

/// An object inside another; an empty one where there is none.
Parsed inner(const Parsed& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || !found->is_object() ? Parsed::object() : *found;
}

std::string line_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

RunRecord run_in(const Parsed& json) {
  return {.ranks = whole(json, "ranks"),
          .parameters = whole(json, "parameters"),
          .tokens_per_step = whole(json, "tokens_per_step"),
          .first_step = whole(json, "first_step"),
          .steps = whole(json, "steps"),
          .strategy = text(json, "strategy"),
          .precision = text(json, "precision"),
          .data = text(json, "data")};
}

StepTimes times_in(const Parsed& json) {
  const auto seconds = [&](const char* key) { return real(json, key) / kMilli; };
  return {.all = seconds("step"),
          .forward = seconds("forward"),
          .backward = seconds("backward"),
          .waiting = seconds("waiting"),
          .optimizer = seconds("optimizer"),
          .data = seconds("data"),
          .coding = json.contains("coding") ? seconds("coding") : 0};
}

StepRecord step_in(const Parsed& json) {
  const Parsed bytes = inner(json, "bytes"), memory = inner(json, "memory");
  StepRecord step = {.step = whole(json, "step"),
                     .samples = whole(json, "samples"),
                     .seconds = real(json, "seconds"),
                     .loss = real(json, "loss"),
                     .average = real(json, "average"),
                     .norm = real(json, "norm"),
                     .rate = real(json, "rate"),
                     .tokens_per_second = real(json, "tokens_per_second"),
                     .times = times_in(inner(json, "ms")),
                     .bytes = {.gathers = whole(bytes, "gathers"),
                               .reductions = whole(bytes, "reductions"),
                               .replicas = whole(bytes, "replicas"),
                               .others = whole(bytes, "others"),
                               .other_hosts = whole(bytes, "other_hosts"),
                               .uncompressed = whole(bytes, "uncompressed")},
                     .memory = {.planned = whole(memory, "planned"),
                                .counted = whole(memory, "counted"),
                                .resident = whole(memory, "resident")},
                     .overlap = maybe(json, "overlap"),
                     .loss_scale = maybe(json, "loss_scale"),
                     .validation = maybe(json, "validation"),
                     .owed = maybe(json, "owed")};
  if (json.contains("sample")) step.sample = text(json, "sample");
  step.skipped = json.contains("skipped") && json["skipped"] == true;
  return step;
}

/// A null value stands for text that is no JSON, or is deeper than any line.
Parsed parse(std::string_view line) {
  bool too_deep = false;
  const auto watch = [&](int depth, Parsed::parse_event_t, Parsed&) {
    too_deep = too_deep || depth > kDeepest;
    return !too_deep;
  };
  Parsed json = Parsed::parse(line, watch, false);
  if (json.is_discarded() || too_deep) return {};
  return json;
}

Status add_line(std::string_view line, StepLog& log) {
  const Parsed json = parse(line);
  if (!json.is_object()) return make_error(Code::kWrongData, "this is no object of JSON");
  if (json.contains("format")) {
    if (text(json, "format") != kFormat)
      return make_error(Code::kWrongData, "this is no log by 'tutti train'");
    if (whole(json, "version") != kLogVersion)
      return make_error(Code::kWrongData, "the log is of version {}, and this program reads {}",
                        whole(json, "version"), kLogVersion);
    log.runs.push_back(run_in(json));
    return ok_status();
  }
  if (log.runs.empty()) return make_error(Code::kWrongData, "this is no log by 'tutti train'");
  StepRecord step = step_in(json);
  if (step.step == 0 || step.step > kMostLoggedSteps)
    return make_error(Code::kWrongData, "its step is not a number from 1 to {}", kMostLoggedSteps);
  while (!log.steps.empty() && log.steps.back().step >= step.step) log.steps.pop_back();
  log.steps.push_back(std::move(step));
  return ok_status();
}

std::string bytes_text(std::uint64_t bytes) {
  constexpr double kKilo = 1e3, kMega = 1e6, kGiga = 1e9;
  const auto amount = static_cast<double>(bytes);
  if (amount >= kGiga) return fmt::format("{:.2f} GB", amount / kGiga);
  if (amount >= kMega) return fmt::format("{:.1f} MB", amount / kMega);
  return fmt::format("{:.1f} kB", amount / kKilo);
}

}  // namespace

std::string json_line(const RunRecord& run) {
  return line_of({{"format", kFormat},
                  {"version", kLogVersion},
                  {"data", run.data},
                  {"strategy", run.strategy},
                  {"precision", run.precision},
                  {"ranks", run.ranks},
                  {"parameters", run.parameters},
                  {"tokens_per_step", run.tokens_per_step},
                  {"first_step", run.first_step},
                  {"steps", run.steps}});
}

std::string json_line(const StepRecord& step) {
  const auto ms = [](double seconds) { return number(seconds * kMilli); };
  Json json = {{"step", step.step},
               {"samples", step.samples},
               {"seconds", number(step.seconds)},
               {"loss", number(step.loss)},
               {"average", number(step.average)},
               {"norm", number(step.norm)},
               {"rate", number(step.rate)},
               {"tokens_per_second", number(step.tokens_per_second)}};
  json["ms"] = {{"step", ms(step.times.all)},
                {"forward", ms(step.times.forward)},
                {"backward", ms(step.times.backward)},
                {"waiting", ms(step.times.waiting)},
                {"optimizer", ms(step.times.optimizer)},
                {"data", ms(step.times.data)}};
  json["bytes"] = {{"gathers", step.bytes.gathers},
                   {"reductions", step.bytes.reductions},
                   {"replicas", step.bytes.replicas},
                   {"others", step.bytes.others},
                   {"other_hosts", step.bytes.other_hosts}};
  if (step.bytes.uncompressed > 0) {
    json["bytes"]["uncompressed"] = step.bytes.uncompressed;
    json["ms"]["coding"] = ms(step.times.coding);
  }
  json["memory"] = {{"planned", step.memory.planned},
                    {"counted", step.memory.counted},
                    {"resident", step.memory.resident}};
  if (step.overlap) json["overlap"] = number(*step.overlap);
  if (step.loss_scale) json["loss_scale"] = number(*step.loss_scale);
  if (step.validation) json["validation"] = number(*step.validation);
  if (step.owed) json["owed"] = number(*step.owed);
  if (step.sample) json["sample"] = *step.sample;
  if (step.skipped) json["skipped"] = true;
  return line_of(json);
}

Result<StepLog> parse_log(std::string_view text) {
  StepLog log;
  std::size_t line = 0;
  for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    if (++line > kMostLines)
      return make_error(Code::kWrongData, "it has more than {} lines", kMostLines);
    if (const Status added = add_line(text.substr(0, end), log); !added)
      return make_error(Code::kWrongData, "line {}: {}", line, added.error().what);
    text.remove_prefix(end + 1);
  }
  if (log.runs.empty())
    return make_error(Code::kWrongData, "this is no log by 'tutti train': it has no whole line");
  return log;
}

std::string duration_text(double seconds) {
  constexpr std::uint64_t kMinute = 60, kHour = 3600;
  const auto whole = static_cast<std::uint64_t>(std::llround(std::max(0.0, seconds)));
  if (whole >= kHour) return fmt::format("{}h{:02}m", whole / kHour, whole % kHour / kMinute);
  if (whole >= kMinute) return fmt::format("{}m{:02}s", whole / kMinute, whole % kMinute);
  return fmt::format("{}s", whole);
}

std::string text_line(const StepRecord& step, std::uint64_t steps, std::optional<double> left) {
  const auto ms = [](double seconds) { return fmt::format("{:.0f}", seconds * kMilli); };
  std::string line = fmt::format("step {}", step.step);
  if (steps > 0) line += fmt::format("/{}", steps);
  line += fmt::format(
      " | loss {:.4f} (avg {:.4f}) | norm {:.3f} | lr {:.2e} | {:.0f} tok/s | {} ms: fwd {} bwd {} "
      "wait {} opt {} data {}",
      step.loss, step.average, step.norm, step.rate, step.tokens_per_second, ms(step.times.all),
      ms(step.times.forward), ms(step.times.backward), ms(step.times.waiting),
      ms(step.times.optimizer), ms(step.times.data));
  if (step.bytes.all() > 0) line += fmt::format(" | sent {}", bytes_text(step.bytes.all()));
  if (step.bytes.other_hosts > 0)
    line += fmt::format(", {} to other hosts", bytes_text(step.bytes.other_hosts));
  if (step.bytes.uncompressed > 0)
    line += fmt::format(" instead of {}, coding {} ms", bytes_text(step.bytes.uncompressed),
                        ms(step.times.coding));
  if (step.owed) line += fmt::format(" | owed {:.3g}", *step.owed);
  if (step.overlap) line += fmt::format(" | hidden {:.0f} %", *step.overlap * 100);
  line += fmt::format(" | mem {} of {} planned, rss {}", bytes_text(step.memory.counted),
                      bytes_text(step.memory.planned), bytes_text(step.memory.resident));
  if (step.loss_scale) line += fmt::format(" | scale {:g}", *step.loss_scale);
  if (left) line += fmt::format(" | eta {}", duration_text(*left));
  if (step.skipped) line += " | SKIPPED: a gradient was infinite or no number";
  return line + "\n";
}

}  // namespace tutti::trainer
