// Starts programs in tests, as users do.
#pragma once

#include <array>
#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

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

/// A program started by the test itself, so that it can send it signals. What it and its children
/// write to standard output is read line by line; it ends when all of them are gone.
class Started {
 public:
  explicit Started(std::vector<std::string> arguments) {
    std::vector<char*> words;
    for (std::string& argument : arguments) words.push_back(argument.data());
    words.push_back(nullptr);
    int fds[2];
    if (::pipe(fds) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(fds[1], STDOUT_FILENO);
      ::close(fds[0]);
      ::close(fds[1]);
      ::execv(words[0], words.data());
      ::_exit(127);
    }
    ::close(fds[1]);
    output_ = ::fdopen(fds[0], "r");
  }
  ~Started() { std::fclose(output_); }
  Started(const Started&) = delete;
  Started& operator=(const Started&) = delete;

  /// With its end; "" at the end of the output.
  std::string read_line() {
    std::array<char, 256> line{};
    return std::fgets(line.data(), line.size(), output_) == nullptr ? "" : line.data();
  }
  [[nodiscard]] pid_t pid() const { return pid_; }
  void signal(int number) const { ::kill(pid_, number); }
  /// The status of waitpid.
  [[nodiscard]] int wait() const {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    return status;
  }

 private:
  pid_t pid_ = -1;
  std::FILE* output_ = nullptr;
};

}  // namespace tutti::tools
