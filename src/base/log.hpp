// Log lines: "host:pid:tid TUTTI WARN [comm rank/size] text". Levels and sinks come from the
// settings TUTTI_DEBUG / NCCL_DEBUG, _DEBUG_SUBSYS, _DEBUG_FILE (%h host, %p pid).
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

namespace tutti {

enum class LogLevel : int { kNone = 0, kVersion = 1, kWarn = 2, kInfo = 3, kAbort = 4, kTrace = 5 };

/// NCCL's subsystem names; a line belongs to one.
enum class Subsystem : std::uint32_t {
  kInit = 1,
  kColl = 2,
  kP2p = 4,
  kShm = 8,
  kNet = 16,
  kGraph = 32,
  kTuning = 64,
  kEnv = 128,
  kAlloc = 256,
  kCall = 512,
  kBootstrap = 4096,
  kAll = 0xffffffff,
};

bool log_enabled(LogLevel level, Subsystem subsystem);
/// Writes one line. `who` is "" or "[name rank/size]". Thread-safe, one write(2) per line. Control
/// characters become spaces: text that a peer chose cannot forge a line.
void log_line(LogLevel level, std::string_view who, std::string_view text);
/// Re-reads the settings from the process environment and reopens the file. Settings that do not
/// parse leave the defaults in place and are reported as a warning.
void reset_log();

/// Parses "INIT,NET" or "^COLL,P2P" (everything but). Names that are not Tutti's are passed over:
/// users' lists name subsystems of other libraries too.
std::uint32_t parse_subsystems(std::string_view list);

template <class... Args>
void log_info(Subsystem subsystem, std::string_view who, fmt::format_string<Args...> format,
              Args&&... args) {
  if (log_enabled(LogLevel::kInfo, subsystem))
    log_line(LogLevel::kInfo, who, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_warn(std::string_view who, fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::kWarn, Subsystem::kAll))
    log_line(LogLevel::kWarn, who, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace tutti
