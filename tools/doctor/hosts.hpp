// Starts a rank on each of several hosts, through ssh.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/base/clock.hpp"
#include "tutti/error.hpp"

namespace tutti::doctor {

/// How ranks are started on hosts.
struct HostsOptions {
  std::vector<std::string> hosts;          ///< "node1", "user@node1"; rank r runs on hosts[r]
  std::string ssh = "ssh";                 ///< a command and its arguments, between blanks
  std::string program;                     ///< of the other hosts; "": the path of this one
  std::vector<std::string> arguments{};    ///< of every rank
  std::string json{};                      ///< file for rank 0's standard output; "": none
  Nanos limit = std::chrono::minutes(10);  ///< after which all of them are ended
};

/// One host alone is checked together with this machine.
std::vector<std::string> hosts_to_check(std::vector<std::string> hosts);

/// Starts a rank for each host as a child of this process, and waits for their end. Returns rank
/// 0's exit code, or 6 if it was not heard. The children are copies of this program that call
/// go_to_host(); `self` are the arguments for that.
Result<int> start_on_hosts(const HostsOptions& options, const std::vector<std::string>& self);

/// In a child of start_on_hosts: becomes the rank, here or through ssh. Returns only if that fails.
Error go_to_host(const HostsOptions& options);

/// At the other end of ssh: takes the variables of the job and of the user from standard input. A
/// setting that this host has already stays as it is. kWrongData for a line that is none.
Status take_variables_from_input();

/// Between quotes, for a shell.
std::string quoted(const std::string& word);

}  // namespace tutti::doctor
