// The report of `tutti dropin --check`: tables, JSON, and advice.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tools/dropin/users.hpp"

namespace tutti::tools {

/// A command that ran to its end under the auditor.
struct Checked {
  std::vector<std::string> command;
  int status = 0;             ///< its exit status, 128 + signal where one ended it
  std::size_t processes = 0;  ///< how many were seen; after an exec it is another one
  std::vector<NcclUser> users;
  std::string our_library;  ///< path of Tutti's libnccl.so.2
};

struct Verdict {
  int code = 0;  ///< what `tutti dropin --check` exits with
  std::string advice;
};

/// In this order: 3 when a call that is needed is missing; 5 when no libnccl was mapped; otherwise
/// the command's own status.
Verdict judge(const Checked& checked);

std::string report_text(const Checked& checked, const Verdict& verdict);
/// With an end of line.
std::string report_json(const Checked& checked, const Verdict& verdict);

}  // namespace tutti::tools
