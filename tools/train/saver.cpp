#include "tools/train/saver.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace tutti::trainer {
namespace {

namespace fs = std::filesystem;
using training::OwnedPiece;

constexpr std::string_view kUnfinished = ".tmp";

/// Of "step_50", and of "step_50.tmp" where that is asked for.
std::optional<std::uint64_t> step_of(std::string_view name, std::string_view suffix) {
  constexpr std::string_view kPrefix = "step_";
  if (!name.starts_with(kPrefix) || !name.ends_with(suffix)) return std::nullopt;
  name = name.substr(kPrefix.size(), name.size() - kPrefix.size() - suffix.size());
  std::uint64_t step = 0;
  const char* const end = name.data() + name.size();
  const auto [rest, wrong] = std::from_chars(name.data(), end, step);
  if (wrong != std::errc{} || rest != end) return std::nullopt;
  return step;
}

std::vector<std::uint64_t> steps_with(const fs::path& folder, std::string_view suffix) {
  std::vector<std::uint64_t> steps;
  std::error_code why;
  for (fs::directory_iterator entry(folder, why); !why && entry != fs::directory_iterator();
       entry.increment(why))
    if (const auto step = step_of(entry->path().filename().string(), suffix))
      steps.push_back(*step);
  std::ranges::sort(steps);
  return steps;
}

fs::path path_of(const fs::path& folder, std::uint64_t step) {
  return folder / fmt::format("step_{}", step);
}

}  // namespace

/// What is written: pieces whose numbers are here.
struct Saver::Copy {
  training::CheckpointHead head;
  std::vector<float> values;
  std::vector<OwnedPiece> pieces;

  Copy(training::CheckpointHead of, std::span<const OwnedPiece> owned)
      : head(std::move(of)), pieces(owned.begin(), owned.end()) {
    std::size_t all = 0;
    for (const OwnedPiece& piece : pieces) all += piece.data.size();
    values.reserve(all);
    for (OwnedPiece& piece : pieces) {
      const std::size_t begin = values.size();
      values.insert(values.end(), piece.data.begin(), piece.data.end());
      piece.data = std::span(values).subspan(begin);
    }
  }
};

Saver::Saver(fs::path folder, training::ParameterTable table, std::uint64_t keep, Comm comm)
    : folder_(std::move(folder)), table_(std::move(table)), keep_(keep), comm_(std::move(comm)) {}

Saver::~Saver() {
  if (!writer_.joinable()) return;
  comm_.revoke();
  writer_.join();
}

Status Saver::save(const training::CheckpointHead& head, std::span<const OwnedPiece> owned) {
  if (Status before = finish(); !before) return before;
  writer_ = std::thread([this, copy = std::make_unique<const Copy>(head, owned)] { write(*copy); });
  return ok_status();
}

Status Saver::finish() {
  if (writer_.joinable()) writer_.join();
  return outcome_;
}

void Saver::write(const Copy& copy) {
  outcome_ = training::save_checkpoint(folder_, copy.head, table_, copy.pieces, comm_);
  if (outcome_ && comm_.rank() == 0) prune(folder_, copy.head.step, keep_);
}

std::vector<std::uint64_t> steps_in(const fs::path& folder) { return steps_with(folder, ""); }

void prune(const fs::path& folder, std::uint64_t step, std::uint64_t keep) {
  std::error_code ignored;
  for (const std::uint64_t unfinished : steps_with(folder, kUnfinished))
    if (unfinished < step) fs::remove_all(path_of(folder, unfinished).concat(kUnfinished), ignored);
  const std::vector<std::uint64_t> complete = steps_in(folder);
  if (keep == 0 || complete.size() <= keep) return;
  for (const std::uint64_t old : std::span(complete).first(complete.size() - keep)) {
    // A folder without ".tmp" is complete: it loses its name before its files.
    const fs::path going = path_of(folder, old).concat(kUnfinished);
    fs::rename(path_of(folder, old), going, ignored);
    fs::remove_all(going, ignored);
  }
}

}  // namespace tutti::trainer
