// Decides where a run starts: at the beginning, or at a checkpoint in its folder.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tools/train/settings.hpp"
#include "training/checkpoint.hpp"
#include "tutti/error.hpp"

namespace tutti::trainer {

struct Start {
  std::optional<training::Checkpoint> checkpoint;  ///< none: anew
  std::vector<std::string> notes;                  ///< what people should know
};

/// For one rank of a job. Later checkpoints than the one that is taken would be in the way of those
/// that the run writes: those whose manifest is damaged are renamed to step_N.damaged; others are
/// an error, as is any where nothing is to be resumed. kInvalidArgument says what to do.
Result<Start> find_start(const std::filesystem::path& folder, const Resume& resume);

}  // namespace tutti::trainer
