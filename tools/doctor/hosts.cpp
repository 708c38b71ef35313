#include "tools/doctor/hosts.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <iostream>
#include <sstream>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "src/base/fd.hpp"
#include "src/base/result.hpp"
#include "src/base/settings.hpp"
#include "src/wire/net.hpp"
#include "tools/program/cli.hpp"
#include "tools/run/job.hpp"

namespace tutti::doctor {
namespace {

constexpr std::string_view kThisMachine = "localhost";
constexpr std::string_view kFromInput = "--variables-from-input";

/// Without "user@".
std::string bare_name(const std::string& host) { return host.substr(host.find('@') + 1); }

bool is_this_machine(const std::string& host) {
  std::array<char, 256> own{};
  ::gethostname(own.data(), own.size() - 1);
  return host == kThisMachine || host == own.data();
}

Result<std::string> own_path() {
  std::array<char, 4096> path{};
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size() - 1);
  if (length > 0) return std::string(path.data(), static_cast<std::size_t>(length));
  return system_error(Code::kUnavailable, errno, "cannot read /proc/self/exe");
}

constexpr std::string_view kOfJob[] = {"MASTER_ADDR",  "MASTER_PORT", "RANK",
                                       "WORLD_SIZE",   "LOCAL_RANK",  "LOCAL_WORLD_SIZE",
                                       "TUTTI_JOB_KEY"};

bool is_of_job(std::string_view name) {
  return std::ranges::find(kOfJob, name) != std::end(kOfJob);
}

/// A setting of the user. What names this host is not passed on.
bool is_setting(std::string_view name) {
  return (name.starts_with("TUTTI_") || name.starts_with("NCCL_")) && !name.ends_with("_HOSTID") &&
         name != "TUTTI_BOOTSTRAP";
}

/// Where rank 0 listens: other hosts must reach it, so its name must not mean "this host".
Result<std::string> address_of_first(const std::string& host) {
  if (!is_this_machine(host)) return bare_name(host);
  TUTTI_ASSIGN(const Settings settings, Settings::load(process_environment()));
  TUTTI_ASSIGN(const SocketAddress address,
               choose_address({settings.text("SOCKET_IFNAME"), settings.text("SOCKET_FAMILY")}));
  const std::string text = to_text(address);  // "10.0.0.1:0", "[fd00::1]:0"
  const bool bracketed = text.starts_with('[');
  return bracketed ? text.substr(1, text.rfind(']') - 1) : text.substr(0, text.rfind(':'));
}

/// "NAME=VALUE" lines of all that the rank needs to know.
std::string variables_of_job() {
  const Environment environment = process_environment();
  std::vector<std::string> names = process_environment_names();
  names.insert(names.end(), std::begin(kOfJob), std::end(kOfJob));
  std::ranges::sort(names);
  const auto repeated = std::ranges::unique(names);
  names.erase(repeated.begin(), repeated.end());
  std::string text;
  for (const std::string& name : names) {
    const auto value = environment(name);
    const bool is_passed = is_of_job(name) || is_setting(name);
    if (is_passed && value && value->find('\n') == value->npos)
      text += fmt::format("{}={}\n", name, *value);
  }
  return text;
}

/// `text` as standard input of what this process becomes. The pipe must hold it.
Status become_input(const std::string& text) {
  constexpr std::size_t kPipe = std::size_t{64} << 10;
  int fds[2];
  if (text.size() > kPipe)
    return make_error(
        Code::kInvalidArgument,
        "the variables TUTTI_* and NCCL_* have {} bytes, and at most {} can be passed "
        "on: unset some",
        text.size(), kPipe);
  if (::pipe(fds) != 0) return system_error(Code::kUnavailable, errno, "cannot open a pipe");
  const Fd read(fds[0]), write(fds[1]);
  if (::write(write.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      ::dup2(read.get(), STDIN_FILENO) < 0)
    return system_error(Code::kUnavailable, errno, "cannot pass variables on");
  return ok_status();
}

/// Standard output goes to the file, and what went to standard error to where standard output did.
Status output_to_file(const std::string& path) {
  const Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file)
    return system_error(Code::kUnavailable, errno,
                        fmt::format("cannot write {}", tools::shown_path(path)));
  ::dup2(STDOUT_FILENO, STDERR_FILENO);
  ::dup2(file.get(), STDOUT_FILENO);
  return ok_status();
}

Error become(std::vector<std::string> words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execvp(pointers[0], pointers.data());
  return system_error(Code::kUnavailable, errno, fmt::format("cannot run '{}'", words.front()));
}

std::vector<std::string> ssh_words(const HostsOptions& options, const std::string& host,
                                   const std::string& program) {
  std::vector<std::string> words;
  std::istringstream in(options.ssh);
  for (std::string word; in >> word;) words.push_back(word);
  if (words == std::vector<std::string>{"ssh"})  // nobody types a password, and no host hangs it
    words.insert(words.end(), {"-T", "-oBatchMode=yes", "-oConnectTimeout=10",
                               "-oServerAliveInterval=5", "-oServerAliveCountMax=3"});
  words.push_back(host);
  std::string command = "exec " + quoted(program);
  for (const std::string& argument : options.arguments) command += " " + quoted(argument);
  words.push_back(fmt::format("{} {}", command, kFromInput));
  return words;
}

}  // namespace

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::vector<std::string> hosts_to_check(std::vector<std::string> hosts) {
  if (hosts.size() == 1 && !is_this_machine(hosts.front()))
    hosts.insert(hosts.begin(), std::string(kThisMachine));
  return hosts;
}

Result<int> start_on_hosts(const HostsOptions& options, const std::vector<std::string>& self) {
  TUTTI_ASSIGN(const std::string program, own_path());
  tools::JobOptions job;
  job.program = "tutti doctor";
  job.ranks = static_cast<std::int32_t>(options.hosts.size());
  job.command = {program};
  job.command.insert(job.command.end(), self.begin(), self.end());
  job.inherit_output = true;
  job.keep_going = true;
  job.ranks_explain = true;
  job.timeout = options.limit;
  TUTTI_ASSIGN(const tools::JobEnd end, tools::run_job(job));
  if (end.interrupted || end.codes.empty()) return end.code;
  const int code = end.codes.front();
  const bool was_heard = code <= tools::kExitPeer;  // ssh has 255, signals more than 128
  return was_heard ? code : int{tools::kExitPeer};
}

Error go_to_host(const HostsOptions& options) {
  std::size_t rank = 0;
  const std::string text = process_environment()("RANK").value_or("");
  std::from_chars(text.data(), text.data() + text.size(), rank);
  if (rank >= options.hosts.size()) return make_error(Code::kInternal, "rank {} has no host", rank);
  const std::string& host = options.hosts[rank];
  const auto first = address_of_first(options.hosts.front());
  if (!first) return first.error();
  ::setenv("MASTER_ADDR", first->c_str(), 1);
  ::setenv("LOCAL_RANK", "0", 1);
  ::setenv("LOCAL_WORLD_SIZE", "1", 1);
  if (rank == 0 && !options.json.empty() && options.json != "-")
    if (const Status opened = output_to_file(options.json); !opened) return opened.error();
  const auto own = own_path();
  if (!own) return own.error();
  if (is_this_machine(host)) {
    std::vector<std::string> words = {*own};
    words.insert(words.end(), options.arguments.begin(), options.arguments.end());
    return become(std::move(words));
  }
  if (const Status passed = become_input(variables_of_job()); !passed) return passed.error();
  return become(ssh_words(options, host, options.program.empty() ? *own : options.program));
}

Status take_variables_from_input() {
  for (std::string line; std::getline(std::cin, line);) {
    const std::size_t equals = line.find('=');
    const std::string name = line.substr(0, equals);
    if (equals == line.npos || !(is_of_job(name) || is_setting(name)))
      return make_error(Code::kWrongData,
                        "standard input has a line that sets none of the job's variables");
    // What a host sets itself stays, so that differences are found.
    ::setenv(name.c_str(), line.substr(equals + 1).c_str(), is_of_job(name) ? 1 : 0);
  }
  return ok_status();
}

}  // namespace tutti::doctor
