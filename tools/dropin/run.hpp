// Starts a program so that its dynamic linker finds Tutti's libraries.
#pragma once

#include <string>
#include <vector>

#include "tutti/error.hpp"

namespace tutti::tools {

/// The libraries that belong to this program: of its build tree, or installed with it.
struct DropinLibraries {
  std::string nccl;     ///< libnccl.so.2
  std::string auditor;  ///< libtutti_audit.so
};
/// kUnavailable names the path where one of them is missing.
Result<DropinLibraries> find_libraries();

/// Becomes `command`, with `library` after what LD_PRELOAD holds. Returns only to say why not:
/// also where LD_PRELOAD names another libnccl, which would go first.
Error become_with(const std::string& library, std::vector<std::string> command);

struct AuditedRun {
  int status = 0;      ///< 128 + signal where one ended it
  std::string events;  ///< of the command and all that it started, for parse_events
};
/// Runs `command` to its end with the auditor. SIGTERM and SIGHUP are passed on to it; a terminal's
/// SIGINT and SIGQUIT reach it anyway. `output_to_error`: its standard output is standard error.
Result<AuditedRun> run_audited(const std::string& auditor, std::vector<std::string> command,
                               bool output_to_error);

}  // namespace tutti::tools
