// tutti switch: adds and multicasts for the ranks of jobs, in software.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>

#include <fmt/format.h>
#include <sys/signalfd.h>

#include "src/base/result.hpp"
#include "src/base/whole_file.hpp"
#include "tools/program/cli.hpp"
#include "tools/program/command_line.hpp"
#include "transports/switch/server.hpp"
#include "transports/switch/switch_address.hpp"

namespace {

using namespace tutti::tools;  // NOLINT(google-build-using-namespace): the programs' own vocabulary
using tutti::Code;
using tutti::Fd;
using tutti::make_error;
using tutti::Result;
using tutti::Status;
using tutti::in_network::ServerCounts;
using tutti::in_network::ServerOptions;
using tutti::in_network::SessionCounts;
using tutti::in_network::SwitchServer;

constexpr std::string_view kProgram = "tutti switch";

struct Options {
  std::string listen = "0.0.0.0:7171";
  std::string above;
  std::string key_file;
  int slots = 4096;
  double report = 0;
};

/// Of the file, or of TUTTI_SWITCH_KEY.
Result<tutti::Key> read_key(const Options& options) {
  std::string text;
  if (options.key_file.empty()) {
    const char* const set = std::getenv("TUTTI_SWITCH_KEY");
    if (set != nullptr) text = set;
  } else {
    TUTTI_ASSIGN(text, tutti::read_file(options.key_file, 4096));
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  }
  tutti::Key key{};
  if (tutti::from_hex(text, key)) return key;
  return make_error(Code::kInvalidArgument,
                    "a key of 64 hexadecimal digits is required, in --key-file or "
                    "TUTTI_SWITCH_KEY, for the switch and for all ranks: `openssl rand -hex 32`");
}

/// In the family of addresses where this switch listens.
Result<tutti::SocketAddress> resolve_above(const Options& options, bool is_ipv6) {
  TUTTI_ASSIGN(const auto above, tutti::parse_switch(options.above, "--above"));
  return tutti::resolve(above.host, above.port, is_ipv6 ? "AF_INET6" : "AF_INET");
}

/// Readable when the program is to end.
Result<Fd> end_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  Fd fd(signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!fd) return make_error(Code::kUnavailable, "signalfd: {}", std::strerror(errno));
  return fd;
}

void print_rates(const ServerCounts& now, const ServerCounts& before, double seconds) {
  const auto rate = [&](std::uint64_t a, std::uint64_t b) {
    return static_cast<double>(a - b) / seconds / 1e3;
  };
  note(
      fmt::format("{} sessions, {} slots free; {:.1f} k packets/s in, {:.1f} k out; {} refused so "
                  "far, {} lost\n",
                  now.open_sessions, now.free_slots, rate(now.packets.taken, before.packets.taken),
                  rate(now.sent, before.sent),
                  now.packets.flawed + now.packets.unknown + now.packets.unauthentic, now.dropped));
  if (now.each.size() < 2) return;
  for (const SessionCounts& session : now.each) {
    const auto known = std::ranges::find(before.each, session.id, &SessionCounts::id);
    const std::uint64_t taken = known == before.each.end() ? 0 : known->taken;
    note(fmt::format("  session {:x}: {} workers, {:.1f} k packets/s\n", session.id,
                     session.workers, rate(session.taken, taken)));
  }
}

Status serve(const Options& options) {
  ServerOptions server_options;
  TUTTI_ASSIGN(server_options.key, read_key(options));
  TUTTI_ASSIGN(server_options.listen, tutti::parse_address(options.listen));
  if (!options.above.empty()) {
    TUTTI_ASSIGN(server_options.above, resolve_above(options, server_options.listen.family == 6));
  }
  server_options.limits.slots = static_cast<std::uint32_t>(options.slots);
  server_options.limits.sessions =
      std::min(server_options.limits.sessions,
               server_options.limits.slots / server_options.limits.least_slots);
  // Each session's workers, and as many who have not joined yet.
  server_options.most_connections =
      std::size_t{2} * server_options.limits.sessions * tutti::in_network::kMostWorkers;
  tutti::raise_fd_limit(server_options.most_connections + 64);
  server_options.say = [](const std::string& line) { note(line + "\n"); };
  TUTTI_ASSIGN(const Fd stop, end_signals());
  TUTTI_ASSIGN(const auto server, SwitchServer::create(std::move(server_options)));
  TUTTI_TRY(print(fmt::format("tutti switch: ready at {}\n", to_text(server->address()))));
  if (options.report <= 0) {
    TUTTI_ASSIGN([[maybe_unused]] const bool stopped, server->serve(stop.get()));
    return tutti::ok_status();
  }
  const auto every =
      std::chrono::duration_cast<tutti::Nanos>(std::chrono::duration<double>(options.report));
  for (ServerCounts before;;) {
    TUTTI_ASSIGN(const bool stopped, server->serve(stop.get(), every));
    const ServerCounts now = server->counts();
    print_rates(now, before, options.report);
    before = now;
    if (stopped) return tutti::ok_status();
  }
}

}  // namespace

int main(int argc, char** argv) {
  hold_standard_descriptors();
  CommandLine app(
      "Adds and multicasts for the ranks of jobs, so that each host sends its data once. Ranks "
      "find it by TUTTI_SWITCH=HOST:PORT and share its key, TUTTI_SWITCH_KEY.",
      kProgram);
  Options options;
  app.add_option("--listen", options.listen, "ADDRESS:PORT for TCP and UDP; port 0: any")
      .shows_default();
  app.add_option("--above", options.above,
                 "HOST:PORT of a switch with the same key, for jobs whose ranks name several "
                 "switches: it adds up what these have added");
  app.add_option("--key-file", options.key_file,
                 "file with the key, 64 hexadecimal digits (default: TUTTI_SWITCH_KEY)");
  app.add_option("--slots", options.slots, "packets of memory that jobs share, of 3 KB each")
      .shows_default()
      .in_range(16, 1 << 20);
  app.add_option("--report", options.report,
                 "print rates every so many seconds, of all jobs and of each; 0: never")
      .in_range(0, 1e6);
  if (const auto code = app.parse(argc, argv)) return *code;
  const Status served = serve(options);
  return served ? kExitFine : fail(kProgram, served.error());
}
