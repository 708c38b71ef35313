// Where checkpoints are: FOLDER/step_50, which is complete, and FOLDER/step_50.tmp, which ranks are
// writing, or were when they ended.
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

/// Of "step_50"; none of any other name.
std::optional<std::uint64_t> step_in_name(std::string_view name);

/// Of the checkpoints in a folder, damaged ones included; ascending, none where there is no such
/// folder. kUnavailable: it cannot be read.
Result<std::vector<std::uint64_t>> complete_steps(const std::filesystem::path& folder);
Result<std::vector<std::uint64_t>> unfinished_steps(const std::filesystem::path& folder);

}  // namespace tutti::training
