// Finds the processes that used NCCL, which library they got, and which functions they need.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tools/dropin/calls.hpp"
#include "tools/dropin/events.hpp"

namespace tutti::tools {

/// How the dynamic linker came to a library, in words of ld.so(8).
enum class Found : unsigned char { kPreload, kRpath, kLibraryPath, kRunpath, kDefault, kPath };

/// A libnccl that a process mapped.
struct NcclLibrary {
  std::string path, soname;
  bool is_tutti = false;  ///< it needs libtutti.so.*
  Found found = Found::kPath;
  std::string owner;            ///< kRpath, kRunpath: path of the object that has it
  std::size_t bound_calls = 0;  ///< how many were seen to get its function; of lazy ones, when used

  friend bool operator==(const NcclLibrary&, const NcclLibrary&) = default;
};
/// "DT_RPATH of ./train", "LD_PRELOAD".
std::string describe_found(const NcclLibrary& library);

/// Why a call is on the list, the surest reason last.
enum class Need : unsigned char {
  kNamed,   ///< its name stands in an object that looks others up with dlsym
  kWeak,    ///< linked, and the object runs without it
  kDlsym,   ///< looked up
  kLinked,  ///< linked: without it the program does not start, or ends when it calls it
};
constexpr std::string_view name_of(Need need) {
  constexpr std::string_view kNames[] = {"named", "weak", "dlsym", "linked"};
  return kNames[static_cast<std::size_t>(need)];
}

struct NeededCall {
  std::string name;  ///< ncclX; pncclX counts as the same
  CallState state = CallState::kMissing;
  Need need = Need::kNamed;
  std::vector<std::string> by;  ///< paths of objects, sorted

  friend bool operator==(const NeededCall&, const NeededCall&) = default;
};

/// Whether some of `library`'s functions may be called, among all libraries of a process: they were
/// bound, or no binding was seen at all.
bool takes_part(const NcclLibrary& library, std::span<const NcclLibrary> all);

/// A program that uses NCCL; processes of which all but the id is equal are one.
struct NcclUser {
  std::string program;
  std::vector<long> pids;
  std::vector<NcclLibrary> libraries;  ///< empty: it asked for one that was not found
  std::vector<NeededCall> calls;       ///< sorted by name
};

/// A process counts that needs a call, or that asked for a libnccl by itself: what LD_PRELOAD alone
/// brings into every shell does not.
std::vector<NcclUser> nccl_users(std::span<const AuditedProcess> processes);

/// Adds what stands in the files of the objects that use dlsym: those names may be looked up in
/// other runs. A file that cannot be read, or is larger than 256 MiB, adds nothing.
void add_named_calls(NcclUser& user);

}  // namespace tutti::tools
