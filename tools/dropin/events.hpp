// Reads what the auditor (tools/dropin/audit.c) recorded about the processes that loaded it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::tools {

/// An object that a process mapped: the program or a shared library.
struct MappedObject {
  std::string path;
  std::string requester;  ///< path of the object that needed or opened it; "" for the program
  std::string
      found_by;  ///< program, LD_PRELOAD, LD_LIBRARY_PATH, RPATH (or RUNPATH), default, path
  std::string soname, rpath, runpath;
  bool needs_tutti = false;  ///< needs libtutti.so.*
};

enum class Use : unsigned char {
  kWeak,    ///< linked, and the object runs without it
  kLinked,  ///< linked: an undefined symbol
  kDlsym,   ///< looked up with dlsym, and found
};

struct CallUse {
  std::string name;  ///< ncclX or pncclX
  std::string by;    ///< path of the object that needs it
  Use use = Use::kLinked;
  std::string provider;  ///< path of the object whose function it got; "" where that was not seen
};

/// A program from its start to its end or next exec, or what a forked process did by itself.
struct AuditedProcess {
  long pid = 0;
  std::string program;
  /// Index of the parent, whose objects are mapped here too.
  std::optional<std::size_t> forked_from;
  std::vector<MappedObject> objects;
  std::vector<CallUse> uses;
  std::vector<std::string> searches;  ///< names of libnccl that were asked for
};

/// In the order of their beginnings. Lines that are no events (a disk that is full, a process that
/// was killed while writing) are left out.
std::vector<AuditedProcess> parse_events(std::string_view text);

}  // namespace tutti::tools
