#include "training/checkpoint_folders.hpp"

#include <algorithm>
#include <charconv>
#include <string>
#include <system_error>

#include "training/outcome.hpp"

namespace tutti::training {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step_", kUnfinished = ".tmp";

Result<std::vector<std::uint64_t>> steps_with(const fs::path& folder, std::string_view suffix) {
  std::vector<std::uint64_t> steps;
  std::error_code why;
  fs::directory_iterator entry(folder, why);
  if (why == std::errc::no_such_file_or_directory) return steps;
  for (; !why && entry != fs::directory_iterator(); entry.increment(why)) {
    std::string name = entry->path().filename().string();
    if (!name.ends_with(suffix)) continue;
    name.resize(name.size() - suffix.size());
    if (const auto step = step_in_name(name)) steps.push_back(*step);
  }
  if (why) return failure(Code::kUnavailable, "reading {}: {}", folder.string(), why.message());
  std::ranges::sort(steps);
  return steps;
}

}  // namespace

fs::path complete_checkpoint(const fs::path& folder, std::uint64_t step) {
  return folder / fmt::format("{}{}", kPrefix, step);
}

fs::path unfinished_checkpoint(const fs::path& folder, std::uint64_t step) {
  return complete_checkpoint(folder, step).concat(kUnfinished);
}

std::optional<std::uint64_t> step_in_name(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  std::uint64_t step = 0;
  const char* const end = name.data() + name.size();
  const auto [rest, wrong] = std::from_chars(name.data() + kPrefix.size(), end, step);
  if (wrong != std::errc{} || rest != end) return std::nullopt;
  return step;
}

Result<std::vector<std::uint64_t>> complete_steps(const fs::path& folder) {
  return steps_with(folder, "");
}

Result<std::vector<std::uint64_t>> unfinished_steps(const fs::path& folder) {
  return steps_with(folder, kUnfinished);
}

}  // namespace tutti::training
