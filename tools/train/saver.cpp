#include "tools/train/saver.hpp"

#include <limits>
#include <system_error>
#include <utility>

#include "training/checkpoint_folders.hpp"

namespace tutti::trainer {
namespace fs = std::filesystem;
using training::OwnedPiece;

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

namespace {

/// Of steps before `end`.
void remove_unfinished_before(const fs::path& folder, std::uint64_t end) {
  const auto unfinished = training::unfinished_steps(folder);
  if (!unfinished) return;
  std::error_code ignored;
  for (const std::uint64_t step : *unfinished)
    if (step < end) fs::remove_all(training::unfinished_checkpoint(folder, step), ignored);
}

}  // namespace

void remove_unfinished(const fs::path& folder) {
  remove_unfinished_before(folder, std::numeric_limits<std::uint64_t>::max());
}

void prune(const fs::path& folder, std::uint64_t step, std::uint64_t keep) {
  std::error_code ignored;
  remove_unfinished_before(folder, step);
  const auto complete = training::complete_steps(folder);
  if (keep == 0 || !complete || complete->size() <= keep) return;
  for (const std::uint64_t old : std::span(*complete).first(complete->size() - keep)) {
    // A folder without ".tmp" is complete: it loses its name before its files.
    const fs::path going = training::unfinished_checkpoint(folder, old);
    fs::rename(training::complete_checkpoint(folder, old), going, ignored);
    fs::remove_all(going, ignored);
  }
}

}  // namespace tutti::trainer
