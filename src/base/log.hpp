// Log lines: "host:pid:tid TUTTI WARN [comm rank/size] text". TUTTI_DEBUG or NCCL_DEBUG sets the
// level, _DEBUG_SUBSYS the subsystems, _DEBUG_FILE the file (%h host, %p pid).
#pragma once

#include <string>
#include <string_view>

#include <fmt/core.h>

namespace tutti {

enum class LogLevel : int { kNone = 0, kVersion = 1, kWarn = 2, kInfo = 3, kAbort = 4, kTrace = 5 };

/// NCCL's subsystem names. Each line belongs to one.
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
/// characters become spaces, so text from a peer cannot fake a line.
void log_line(LogLevel level, std::string_view who, std::string_view text);
void log_formatted(LogLevel level, std::string_view who, fmt::string_view format,
                   fmt::format_args args);
/// Re-reads the settings from the environment and reopens the file. A setting that does not parse
/// keeps its default and causes a warning.
void reset_log();

/// Parses "INIT,NET" or "^COLL,P2P" (everything but). Unknown names are ignored, because users'
/// lists also name subsystems of other libraries.
std::uint32_t parse_subsystems(std::string_view list);

template <class... Args>
void log_info(Subsystem subsystem, std::string_view who, fmt::format_string<Args...> format,
              Args&&... args) {
  if (log_enabled(LogLevel::kInfo, subsystem))
    log_formatted(LogLevel::kInfo, who, format, fmt::make_format_args(args...));
}
template <class... Args>
void log_warn(std::string_view who, fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::kWarn, Subsystem::kAll))
    log_formatted(LogLevel::kWarn, who, format, fmt::make_format_args(args...));
}

}  // namespace tutti
