// Names of checkpoint folders: FOLDER/step_50 is complete. FOLDER/step_50.tmp is being written, or
// its writers ended too early.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "tutti/error.hpp"

namespace tutti::training {

std::filesystem::path complete_checkpoint(const std::filesystem::path& folder, std::uint64_t step);
std::filesystem::path unfinished_checkpoint(const std::filesystem::path& folder,
                                            std::uint64_t step);

/// The step in "step_50"; nullopt for any other name.
std::optional<std::uint64_t> step_in_name(std::string_view name);

/// Steps of the checkpoints in a folder, including damaged ones, ascending. Empty if there is no
/// such folder. kUnavailable: it cannot be read.
Result<std::vector<std::uint64_t>> complete_steps(const std::filesystem::path& folder);
Result<std::vector<std::uint64_t>> unfinished_steps(const std::filesystem::path& folder);

}  // namespace tutti::training
