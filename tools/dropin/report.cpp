#include "tools/dropin/report.hpp"

#include <algorithm>
#include <array>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "src/base/printable.hpp"
#include "tools/program/cli.hpp"

namespace tutti::tools {
namespace {

using Json = nlohmann::ordered_json;

std::string file_name(const std::string& path) { return std::filesystem::path(path).filename(); }

/// Needed for sure: a name in a file may never be looked up, and a weak symbol may stay undefined.
bool is_required(const NeededCall& call) {
  return call.need == Need::kLinked || call.need == Need::kDlsym;
}

std::vector<std::string> missing_calls(std::span<const NcclUser> users) {
  std::vector<std::string> names;
  for (const NcclUser& user : users)
    for (const NeededCall& call : user.calls)
      if (call.state == CallState::kMissing && is_required(call)) names.push_back(call.name);
  std::ranges::sort(names);
  names.erase(std::ranges::unique(names).begin(), names.end());
  return names;
}

std::string advice_for(const NcclUser& user, const NcclLibrary& other, const std::string& ours) {
  const std::string preload =
      fmt::format("LD_PRELOAD={}, as 'tutti dropin -- COMMAND' sets it", ours);
  const std::string folder = std::filesystem::path(ours).parent_path();
  const bool by_dlsym =
      std::ranges::find(user.calls, Need::kDlsym, &NeededCall::need) != user.calls.end();
  switch (other.found) {
    case Found::kPreload:
      return fmt::format("LD_PRELOAD names {}: put {} there instead", other.path, ours);
    case Found::kRpath:
      return fmt::format("{} has DT_RPATH, which goes before LD_LIBRARY_PATH: use {}",
                         other.owner.empty() ? user.program : other.owner, preload);
    case Found::kPath:
      return by_dlsym ? fmt::format(
                            "{} opens {} by its path and looks calls up in it, so no variable of "
                            "the linker changes that: have it open {}",
                            user.program, other.path, ours)
                      : fmt::format(
                            "{} opens {} by its path; what it links is bound to what was loaded "
                            "before: use {}",
                            user.program, other.path, preload);
    case Found::kLibraryPath:
    case Found::kRunpath:
    case Found::kDefault:
      break;
  }
  return fmt::format("put {} first in LD_LIBRARY_PATH, or use {}", folder, preload);
}

std::string advice_where_all_is_tutti(const Checked& checked) {
  std::size_t refused = 0;
  for (const NcclUser& user : checked.users)
    refused += static_cast<std::size_t>(
        std::ranges::count(user.calls, CallState::kRefused, &NeededCall::state));
  std::string advice = "Tutti is in NCCL's place";
  if (refused > 0)
    advice += fmt::format("; calls it refuses return an error and nothing else: {}", refused);
  return advice + "; to go back, take it out of LD_PRELOAD and LD_LIBRARY_PATH";
}

Json json_of(const NcclUser& user) {
  Json json = {{"program", user.program}, {"pids", user.pids}};
  json["libraries"] = Json::array();
  for (const NcclLibrary& library : user.libraries)
    json["libraries"].push_back({{"path", library.path},
                                 {"soname", library.soname},
                                 {"tutti", library.is_tutti},
                                 {"found_by", describe_found(library)},
                                 {"bound_calls", library.bound_calls}});
  json["calls"] = Json::array();
  for (const NeededCall& call : user.calls)
    json["calls"].push_back({{"name", call.name},
                             {"state", name_of(call.state)},
                             {"need", name_of(call.need)},
                             {"by", call.by}});
  return json;
}

std::string calls_table(const NcclUser& user) {
  Table table({"  CALL", "STATE", "NEED", "BY"});
  for (const NeededCall& call : user.calls) {
    std::vector<std::string> by;
    std::ranges::transform(call.by, std::back_inserter(by), file_name);
    table.add({"  " + call.name, std::string(name_of(call.state)), std::string(name_of(call.need)),
               fmt::format("{}", fmt::join(by, ", "))});
  }
  return table.text();
}

std::string text_of(const NcclUser& user) {
  std::string text = fmt::format("{} (process {})\n", user.program, fmt::join(user.pids, ", "));
  for (const NcclLibrary& library : user.libraries)
    text += fmt::format("  maps   {}: {}, found by {}{}\n", library.path,
                        library.is_tutti ? "Tutti's" : "not Tutti's", describe_found(library),
                        takes_part(library, user.libraries) ? "" : "; no call is bound to it");
  if (user.libraries.empty()) text += "  maps   no libnccl: none was found\n";
  std::array<std::size_t, 3> counts{};
  for (const NeededCall& call : user.calls) ++counts[static_cast<std::size_t>(call.state)];
  text += fmt::format("  calls  {}: in Tutti {} native, {} refused, {} missing\n",
                      user.calls.size(), counts[0], counts[1], counts[2]);
  return user.calls.empty() ? text : text + calls_table(user);
}

}  // namespace

Verdict judge(const Checked& checked) {
  if (checked.processes == 0)
    return {kExitEnvironment,
            "nothing was seen: the command is linked statically or runs with other rights, or its "
            "linker has no LD_AUDIT"};
  const std::vector<std::string> missing = missing_calls(checked.users);
  if (!missing.empty())
    return {kExitWrongData, fmt::format("Tutti cannot take NCCL's place here: it lacks {}",
                                        fmt::join(missing, ", "))};
  const auto none = [](const NcclUser& user) { return user.libraries.empty(); };
  if (checked.users.empty())
    return {kExitEnvironment,
            "no process mapped a libnccl; where NCCL is linked statically, nothing can take its "
            "place"};
  if (std::ranges::all_of(checked.users, none))
    return {kExitEnvironment,
            fmt::format("no libnccl was found: put {} in LD_LIBRARY_PATH, or use 'tutti dropin -- "
                        "COMMAND'",
                        std::filesystem::path(checked.our_library).parent_path().string())};
  for (const NcclUser& user : checked.users)
    for (const NcclLibrary& library : user.libraries)
      if (!library.is_tutti && takes_part(library, user.libraries))
        return {checked.status, advice_for(user, library, checked.our_library)};
  return {checked.status, advice_where_all_is_tutti(checked)};
}

std::string report_text(const Checked& checked, const Verdict& verdict) {
  std::string text;
  for (const NcclUser& user : checked.users) text += text_of(user) + "\n";
  text += fmt::format("{} program{} ran, status {}: {}\n", checked.processes,
                      checked.processes == 1 ? "" : "s", checked.status, verdict.advice);
  return without_controls(text, "\n");
}

std::string report_json(const Checked& checked, const Verdict& verdict) {
  Json json = {{"tutti_format", 1},
               {"command", checked.command},
               {"status", checked.status},
               {"processes", checked.processes},
               {"library", checked.our_library}};
  json["users"] = Json::array();
  for (const NcclUser& user : checked.users) json["users"].push_back(json_of(user));
  json["exit"] = verdict.code;
  json["advice"] = verdict.advice;
  // Paths are bytes, and JSON is UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tutti::tools
