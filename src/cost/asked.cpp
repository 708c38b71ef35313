#include "src/cost/asked.hpp"

#include <algorithm>
#include <cctype>

#include "src/base/log.hpp"
#include "src/base/result.hpp"
#include "tutti/types.hpp"

namespace tutti {

std::string normalised(std::string_view name) {
  std::string result;
  for (const char c : name) {
    if (c == '-' || c == '_' || c == ' ') continue;
    result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  if (result == "tree") return "doublebinarytree";
  return result;
}

std::optional<Collective> collective_meant(std::string_view name) {
  const std::string wanted = normalised(name);
  for (int c = 0; c < kCollectives; ++c) {
    const auto each = static_cast<Collective>(c);
    if (normalised(name_of(each)) == wanted) return each;
  }
  return std::nullopt;
}

std::vector<std::string_view> parts_between(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    if (end > 0) parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

namespace {

Result<std::string> known_collective(std::string_view setting, std::string_view name) {
  if (collective_meant(name)) return normalised(name);
  std::string known;
  for (int c = 0; c < kCollectives; ++c)
    known += fmt::format(" {}", name_of(static_cast<Collective>(c)));
  return make_error(Code::kInvalidArgument,
                    "{} names the collective '{}', which does not exist; there are:{}", setting,
                    name, known);
}

constexpr std::string_view kFile = "file:";

/// `asked` without the collectives and algorithms that do not exist; `unknown` gets their names,
/// with commas.
std::string known_part(std::string_view asked, std::span<const ir::Algorithm> algorithms,
                       std::string& unknown) {
  const auto leave_out = [&](std::string_view name) {
    unknown += fmt::format("{}{}", unknown.empty() ? "" : ", ", name);
  };
  std::string known;
  for (const std::string_view group : parts_between(asked, ';')) {
    const std::size_t colon = group.starts_with(kFile) ? group.npos : group.find(':');
    const std::string_view collective = colon == group.npos ? "" : group.substr(0, colon);
    std::string_view names = colon == group.npos ? group : group.substr(colon + 1);
    if (!collective.empty() && !known_collective("", collective)) {
      leave_out(collective);
      continue;
    }
    std::string kept;
    if (names.starts_with(kFile) || names.starts_with('^')) {
      kept = names;  // of what is excluded, the tuner ignores what does not exist
      names = {};
    }
    for (const std::string_view name : parts_between(names, ',')) {
      const bool exists = std::ranges::any_of(algorithms, [&](const ir::Algorithm& each) {
        return normalised(each.name) == normalised(name);
      });
      if (exists)
        kept += fmt::format("{}{}", kept.empty() ? "" : ",", name);
      else
        leave_out(name);
    }
    if (kept.empty()) continue;
    known += fmt::format("{}{}{}{}", known.empty() ? "" : ";", collective,
                         collective.empty() ? "" : ":", kept);
  }
  return known;
}

}  // namespace

std::string asked_algorithms(const Settings& settings, std::span<const ir::Algorithm> algorithms) {
  const std::string& asked = settings.text("ALGO");
  if (settings.source("ALGO") != "NCCL_ALGO") return asked;
  std::string unknown;
  std::string known = known_part(asked, algorithms, unknown);
  if (!unknown.empty())
    log_warn("", "NCCL_ALGO={} names what does not exist here, which is left out: {}", asked,
             unknown);
  return known;
}

Result<std::vector<AskedGroup>> groups_of(std::string_view forced) {
  std::vector<AskedGroup> groups;
  for (std::string_view text : parts_between(forced, ';')) {
    AskedGroup group;
    const std::size_t colon = text.find(':');
    if (colon != std::string_view::npos && !text.starts_with(kFile)) {
      TUTTI_ASSIGN(group.collective,
                   known_collective("TUTTI_ALGO (or NCCL_ALGO)", text.substr(0, colon)));
      text.remove_prefix(colon + 1);
    }
    if (text == kFile)
      return make_error(Code::kInvalidArgument,
                        "TUTTI_ALGO (or NCCL_ALGO) names no file after 'file:'; write file:PATH");
    if (text.starts_with(kFile))
      group.path = text.substr(kFile.size());
    else
      group.names = text;
    groups.push_back(std::move(group));
  }
  return groups;
}

Result<std::vector<std::string>> files_of(std::string_view forced) {
  TUTTI_ASSIGN(const std::vector<AskedGroup> groups, groups_of(forced));
  std::vector<std::string> paths;
  for (const AskedGroup& group : groups)
    if (!group.path.empty()) paths.emplace_back(group.path);
  if (paths.size() > kMostFiles)
    return make_error(Code::kInvalidArgument, "TUTTI_ALGO names {} files; at most {} are accepted",
                      paths.size(), kMostFiles);
  return paths;
}

Status check_protocols(std::string_view asked) {
  constexpr std::string_view kSetting = "TUTTI_PROTO (or NCCL_PROTO)";
  for (std::string_view text : parts_between(asked, ';')) {
    if (const std::size_t colon = text.find(':'); colon != std::string_view::npos) {
      TUTTI_TRY(known_collective(kSetting, text.substr(0, colon)));
      text.remove_prefix(colon + 1);
    }
    if (text.starts_with('^')) text.remove_prefix(1);
    for (const std::string_view name : parts_between(text, ',')) {
      const std::string protocol = normalised(name);
      if (protocol != "ll" && protocol != "ll128" && protocol != "simple")
        return make_error(Code::kInvalidArgument,
                          "{} names the protocol '{}', which does not exist; there are: LL LL128 "
                          "Simple",
                          kSetting, name);
    }
  }
  return ok_status();
}

}  // namespace tutti
