#include "src/comm/imported.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "src/base/hash.hpp"
#include "src/base/log.hpp"
#include "src/base/result.hpp"
#include "src/exchange/out_of_place.hpp"
#include "src/exchange/read.hpp"
#include "src/ir/verify.hpp"

namespace tutti {
namespace {

Result<std::string> text_of(const std::string& path) {
  std::error_code error;
  const bool is_file = std::filesystem::is_regular_file(path, error);
  const std::uintmax_t bytes = is_file ? std::filesystem::file_size(path, error) : 0;
  if (error)
    return make_error(Code::kInvalidArgument, "TUTTI_ALGO: cannot read '{}': {}; every rank must",
                      path, error.message());
  if (!is_file || bytes > exchange::kLargestText)
    return make_error(Code::kInvalidArgument,
                      "TUTTI_ALGO: '{}' is no file of at most {} bytes; name one that holds a "
                      "schedule",
                      path, exchange::kLargestText);
  std::string text(bytes, '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.read(text.data(), static_cast<std::streamsize>(bytes)))
    return make_error(Code::kInvalidArgument,
                      "TUTTI_ALGO: cannot read the {} bytes of '{}'; every rank must", bytes, path);
  return text;
}

Result<exchange::Schedules> schedules_of(const std::string& path, std::string_view text) {
  std::vector<std::string> notes;
  auto read = exchange::read(text, &notes);
  for (const std::string& note : notes) log_info(Subsystem::kTuning, "", "{}: {}", path, note);
  TUTTI_ASSIGN(exchange::Schedules schedules, std::move(read));
  for (ir::Schedule& schedule : schedules) schedule.request.layout = {};  // it runs on any
  if (schedules.front().request.in_place) {
    TUTTI_ASSIGN(ir::Schedule first, exchange::out_of_place(schedules.front()));
    schedules.insert(schedules.begin(), std::move(first));
  }
  return schedules;
}

const ir::Schedule* schedule_for(const exchange::Schedules& schedules, ir::Request request) {
  request.layout = {};
  const auto found = std::ranges::find(schedules, request, &ir::Schedule::request);
  return found == schedules.end() ? nullptr : &*found;
}

bool has_formats(const ir::Schedule& schedule) { return !schedule.formats.empty(); }

/// Of `file`, which must outlive it and stay where it is.
ir::Algorithm algorithm_of(const ImportedFile& file) {
  const exchange::Schedules& all = file.schedules;
  ir::Algorithm algorithm;
  algorithm.name = file.name;
  algorithm.summary = "out of a file";
  algorithm.supports = [&all](const ir::Request& request) {
    return schedule_for(all, request) != nullptr;
  };
  algorithm.generate = [&all](const ir::Request& request) -> Result<ir::Schedule> {
    const ir::Schedule* const found = schedule_for(all, request);
    TUTTI_CHECK(found != nullptr, "a request that is not supported");
    ir::Schedule schedule = *found;
    schedule.request.layout = request.layout;
    return schedule;
  };
  algorithm.lossy = std::ranges::any_of(all, has_formats);
  return algorithm;
}

}  // namespace

Result<const ImportedFile*> ImportedFiles::read(const std::string& path) {
  const Result<std::string> text = text_of(path);
  const std::scoped_lock lock(mutex_);  // ranks that are threads read the same file at once
  if (!text) {
    const auto before = latest_.find(path);
    if (before != latest_.end()) return before->second;
    return text.error();
  }
  const std::uint64_t hash = fnv(*text);
  std::string name =
      fmt::format("{}#{:016x}", std::filesystem::path(path).filename().string(), hash);
  if (const auto known = files_.find(name); known != files_.end())
    return latest_[path] = known->second.get();
  auto schedules = schedules_of(path, *text);
  if (!schedules)
    return make_error(schedules.error().code,
                      "TUTTI_ALGO: {}: {}; repair the file (`tutti algo verify` checks it) or take "
                      "it out of TUTTI_ALGO",
                      path, schedules.error().what);
  auto file = std::make_unique<ImportedFile>();
  file->hash = hash;
  file->name = name;
  file->schedules = *std::move(schedules);
  for (const ir::Schedule& schedule : file->schedules) TUTTI_TRY(ir::verify(schedule));
  file->algorithm = algorithm_of(*file);
  return latest_[path] = files_.emplace(std::move(name), std::move(file)).first->second.get();
}

}  // namespace tutti
