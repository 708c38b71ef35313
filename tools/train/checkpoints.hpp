// `tutti train inspect` and `tutti train reshard`: show checkpoints, and rewrite them for other
// ranks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "training/checkpoint.hpp"
#include "tutti/error.hpp"

namespace tutti::trainer {

/// A folder with checkpoints, of which the last is taken, or one of them ("out/step_50").
Result<training::Checkpoint> open_checkpoint(const std::filesystem::path& path);

/// What there is, after every checksum was found right. Value.
struct Inspection {
  std::string text;  ///< tables for people
  std::string json;
};
Result<Inspection> inspect(const training::Checkpoint& checkpoint);

/// All of a checkpoint, in memory. Value.
struct WholeCheckpoint {
  struct Kind {
    std::string name;
    std::vector<std::vector<float>> values;  ///< by ParameterId
  };
  training::CheckpointHead head;
  training::ParameterTable table;
  std::vector<Kind> kinds;
};
/// Holds every piece to its checksum.
Result<WholeCheckpoint> read_whole(const training::Checkpoint& checkpoint);
/// Of weights in a safetensors file: moments are zero, the step and counters those that
/// write_weights() noted there.
Result<WholeCheckpoint> read_weights(const std::filesystem::path& file);

/// As `ranks` ranks would have written it, each of which owns as much as the others.
Status write_whole(const std::filesystem::path& folder, const WholeCheckpoint& whole, int ranks);
/// The parameters alone, as a safetensors file.
Status write_weights(const std::filesystem::path& file, const WholeCheckpoint& whole);

}  // namespace tutti::trainer
