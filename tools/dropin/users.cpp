#include "tools/dropin/users.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include <fmt/format.h>

#include "src/base/whole_file.hpp"

namespace tutti::tools {
namespace {

bool is_libnccl(const MappedObject& object) {
  const std::size_t slash = object.path.rfind('/');
  const std::string_view file = std::string_view(object.path).substr(slash + 1);
  return file.starts_with("libnccl.so") || object.soname.starts_with("libnccl.so");
}

std::string tidy_path(const std::string& path) {
  return std::filesystem::path(path).lexically_normal();
}

/// What is mapped in a process: its own objects, and before a fork its parent's.
class Mapped {
 public:
  Mapped(std::span<const AuditedProcess> processes, std::size_t index) {
    for (std::optional<std::size_t> at = index; at; at = processes[*at].forked_from)
      for (const MappedObject& object : processes[*at].objects) {
        by_path_.try_emplace(object.path, &object);
        if (is_libnccl(object)) nccl_.push_back(&object);
      }
  }
  [[nodiscard]] const MappedObject* find(const std::string& path) const {
    const auto found = by_path_.find(path);
    return found == by_path_.end() ? nullptr : found->second;
  }
  [[nodiscard]] const std::vector<const MappedObject*>& nccl() const { return nccl_; }

  /// Sets whose RPATH or RUNPATH led to `object`: RUNPATH holds for what its owner needs alone and
  /// makes its RPATH void; RPATH also for what is needed further down.
  void find_owner(const MappedObject& object, NcclLibrary& library) const {
    const MappedObject* owner = find(object.requester);
    if (owner != nullptr && !owner->runpath.empty()) {
      library.found = Found::kRunpath;
      library.owner = tidy_path(owner->path);
      return;
    }
    library.found = Found::kRpath;
    for (std::size_t steps = 0; owner != nullptr && steps < by_path_.size(); ++steps) {
      if (!owner->rpath.empty() && owner->runpath.empty()) {
        library.owner = tidy_path(owner->path);
        return;
      }
      owner = find(owner->requester);
    }
  }

 private:
  std::map<std::string, const MappedObject*> by_path_;
  std::vector<const MappedObject*> nccl_;
};

std::size_t bound_calls(const AuditedProcess& process, const std::string& library) {
  std::set<std::string_view> names;
  for (const CallUse& use : process.uses)
    if (use.provider == library && use.by != library)
      names.insert(without_profiling_prefix(use.name));
  return names.size();
}

NcclLibrary library_of(const AuditedProcess& process, const Mapped& mapped,
                       const MappedObject& object) {
  NcclLibrary library{.path = tidy_path(object.path),
                      .soname = object.soname,
                      .is_tutti = object.needs_tutti,
                      .found = Found::kPath,
                      .owner = "",
                      .bound_calls = bound_calls(process, object.path)};
  if (object.found_by == "LD_PRELOAD") library.found = Found::kPreload;
  if (object.found_by == "LD_LIBRARY_PATH") library.found = Found::kLibraryPath;
  if (object.found_by == "default") library.found = Found::kDefault;
  if (object.found_by == "RPATH") mapped.find_owner(object, library);
  return library;
}

std::vector<NeededCall> calls_of(const AuditedProcess& process, const Mapped& mapped) {
  std::set<std::pair<std::string, std::string>> weak;
  for (const CallUse& use : process.uses)
    if (use.use == Use::kWeak) weak.emplace(use.name, use.by);

  std::map<std::string, NeededCall> calls;
  for (const CallUse& use : process.uses) {
    const MappedObject* user = mapped.find(use.by);
    if (user != nullptr && is_libnccl(*user)) continue;  // its own business
    const std::string name(without_profiling_prefix(use.name));
    NeededCall& call = calls[name];
    call.name = name;
    call.state = call_state(name);
    Need need = use.use == Use::kDlsym ? Need::kDlsym : Need::kLinked;
    if (weak.contains({use.name, use.by})) need = Need::kWeak;
    call.need = std::max(call.need, need);
    const auto at = std::ranges::lower_bound(call.by, tidy_path(use.by));
    if (at == call.by.end() || *at != tidy_path(use.by)) call.by.insert(at, tidy_path(use.by));
  }
  std::vector<NeededCall> sorted;
  for (auto& [name, call] : calls) sorted.push_back(std::move(call));
  return sorted;
}

bool asked_by_itself(const AuditedProcess& process) {
  return !process.searches.empty() ||
         std::ranges::any_of(process.objects, [](const MappedObject& object) {
           return is_libnccl(object) && object.found_by != "LD_PRELOAD";
         });
}

}  // namespace

std::string describe_found(const NcclLibrary& library) {
  constexpr std::string_view kWords[] = {"LD_PRELOAD",          "DT_RPATH",
                                         "LD_LIBRARY_PATH",     "DT_RUNPATH",
                                         "the default folders", "its path, which the program gave"};
  const std::string_view words = kWords[static_cast<std::size_t>(library.found)];
  return library.owner.empty() ? std::string(words) : fmt::format("{} of {}", words, library.owner);
}

bool takes_part(const NcclLibrary& library, std::span<const NcclLibrary> all) {
  return library.bound_calls > 0 ||
         std::ranges::all_of(all, [](const NcclLibrary& any) { return any.bound_calls == 0; });
}

std::vector<NcclUser> nccl_users(std::span<const AuditedProcess> processes) {
  std::vector<NcclUser> users;
  for (std::size_t index = 0; index < processes.size(); ++index) {
    const AuditedProcess& process = processes[index];
    const Mapped mapped(processes, index);
    NcclUser user{.program = process.program,
                  .pids = {process.pid},
                  .libraries = {},
                  .calls = calls_of(process, mapped)};
    if (user.calls.empty() && !asked_by_itself(process)) continue;
    for (const MappedObject* object : mapped.nccl())
      user.libraries.push_back(library_of(process, mapped, *object));
    const auto same = std::ranges::find_if(users, [&](const NcclUser& other) {
      return other.program == user.program && other.libraries == user.libraries &&
             other.calls == user.calls;
    });
    if (same == users.end())
      users.push_back(std::move(user));
    else
      same->pids.push_back(process.pid);
  }
  return users;
}

void add_named_calls(NcclUser& user) {
  constexpr std::size_t kLargestFile = std::size_t{256} << 20;
  std::set<std::string> lookers;
  for (const NeededCall& call : user.calls)
    if (call.need == Need::kDlsym) lookers.insert(call.by.begin(), call.by.end());
  for (const std::string& path : lookers) {
    const Result<std::string> bytes = read_file(path, kLargestFile);
    if (!bytes) continue;
    for (const std::string& text : nccl_names_in(*bytes)) {
      const std::string name(without_profiling_prefix(text));
      const auto at = std::ranges::lower_bound(user.calls, name, {}, &NeededCall::name);
      if (at != user.calls.end() && at->name == name) continue;
      user.calls.insert(at, {.name = name, .state = call_state(name), .by = {path}});
    }
  }
}

}  // namespace tutti::tools
