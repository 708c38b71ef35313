// For tests that drive the built programs as their users do.
#pragma once

#include <array>
#include <cstdio>
#include <string>

#include <sys/wait.h>

namespace tutti::tools {

struct Outcome {
  int code = -1;
  std::string output;  ///< standard output and error together
};

/// Runs a command line in a shell, to its end.
inline Outcome run_shell(const std::string& command) {
  std::FILE* pipe = ::popen(("{ " + command + "\n} 2>&1").c_str(), "r");
  Outcome outcome;
  std::array<char, 4096> buffer{};
  while (const std::size_t bytes = std::fread(buffer.data(), 1, buffer.size(), pipe))
    outcome.output.append(buffer.data(), bytes);
  outcome.code = WEXITSTATUS(::pclose(pipe));
  return outcome;
}

}  // namespace tutti::tools
