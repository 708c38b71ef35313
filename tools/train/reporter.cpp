#include "tools/train/reporter.hpp"

#include <array>
#include <system_error>
#include <utility>

#include <unistd.h>

#include "src/base/printable.hpp"
#include "src/base/result.hpp"

namespace tutti::trainer {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBlock = 4096;

/// Takes a last line away that was not finished, so that the next one begins anew.
Status end_with_a_line(const fs::path& path) {
  std::error_code why;
  const std::uintmax_t size = fs::file_size(path, why);
  if (why) return ok_status();  // there is none
  std::ifstream in(path, std::ios::binary);
  std::uintmax_t keep = 0;
  std::array<char, kBlock> block{};
  for (std::uintmax_t end = size; end > 0 && keep == 0;) {
    const std::uintmax_t begin = end > kBlock ? end - kBlock : 0;
    in.seekg(static_cast<std::streamoff>(begin));
    in.read(block.data(), static_cast<std::streamsize>(end - begin));
    if (!in)
      return make_error(Code::kUnavailable, "cannot read {}, which this run would go on with",
                        tools::shown_path(path.string()));
    const std::string_view text(block.data(), static_cast<std::size_t>(end - begin));
    const std::size_t last = text.rfind('\n');
    if (last != std::string_view::npos) keep = begin + last + 1;
    end = begin;
  }
  if (keep < size) fs::resize_file(path, keep, why);
  if (!why) return ok_status();
  return make_error(Code::kUnavailable, "cannot shorten {}: {}", tools::shown_path(path.string()),
                    why.message());
}

Error cannot_write(const fs::path& path) {
  return make_error(Code::kUnavailable,
                    "cannot write {}: is its folder writable, and the disk not full?",
                    tools::shown_path(path.string()));
}

}  // namespace

Result<Reporter> Reporter::open(const fs::path& folder, const RunRecord& run,
                                std::uint64_t log_every, bool continues) {
  const fs::path path = folder / "log.jsonl";
  if (continues) TUTTI_TRY(end_with_a_line(path));
  std::ofstream log(path, continues ? std::ios::app : std::ios::trunc);
  log << json_line(run) << std::flush;
  if (!log) return cannot_write(path);
  return Reporter(path, std::move(log), run, log_every);
}

Status Reporter::step(const StepRecord& record, std::optional<double> left) {
  log_ << json_line(record) << std::flush;
  if (!log_) return cannot_write(path_);
  const bool is_special = record.validation || record.sample || record.skipped;
  bar_.clear();
  if (is_special || record.step % log_every_ == 0 || record.step == run_.steps) {
    std::string text = text_line(record, run_.steps, left);
    if (record.validation)
      text += fmt::format("  validation loss {:.4f} nats a byte\n", *record.validation);
    if (record.sample) text += fmt::format("  | {}\n", without_controls(*record.sample, "\n"));
    TUTTI_TRY(tools::print(text));
  }
  if (run_.steps > 0)
    bar_.show(record.step, run_.steps,
              fmt::format("loss {:.4f}{}", record.average,
                          left ? ", " + duration_text(*left) + " left" : ""));
  if (record.step == run_.steps) bar_.clear();
  return ok_status();
}

void Reporter::say(const std::string& sentence) const {
  bar_.clear();
  tools::note("tutti train: " + sentence + "\n");
}

std::string comparison_text(const training::Plan& plan, int hosts,
                            const training::MemoryPlan& counted, const StepBytes& sent) {
  const training::MemoryPlan memory = plan.memory();
  const training::TrafficPlan traffic = plan.traffic(hosts);
  tools::Table table({"BYTES OF RANK 0", "PREDICTED", "COUNTED"});
  const auto add = [&](const char* name, std::uint64_t predicted, std::uint64_t found) {
    table.add({name, std::to_string(predicted), std::to_string(found)});
  };
  add("memory: parameters", memory.parameters, counted.parameters);
  add("memory: gradients", memory.gradients, counted.gradients);
  add("memory: masters", memory.masters, counted.masters);
  add("memory: moments", memory.moments, counted.moments);
  add("memory: windows", memory.windows, counted.windows);
  if (memory.owed > 0) add("memory: owed", memory.owed, counted.owed);
  add("sent in a step: gathers", traffic.gathers, sent.gathers);
  add("sent in a step: reductions", traffic.reductions, sent.reductions);
  add("sent in a step: replicas", traffic.replicas, sent.replicas);
  if (hosts > 1) add("of these to other hosts", traffic.other_hosts, sent.other_hosts);
  return table.text({1, 2});
}

std::uint64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::uint64_t all = 0, resident = 0;
  statm >> all >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace tutti::trainer
