#include "src/plugin/plugin_log.hpp"

#include <array>
#include <cstdarg>
#include <cstdio>
#include <utility>

#include "src/base/log.hpp"
#include "src/base/printable.hpp"

namespace tutti::plugin {
namespace {

// Lines beyond that are cut.
constexpr std::size_t kLongestLine = 2048;

std::string& last_warning() {
  thread_local std::string warning;
  return warning;
}

std::string formatted_line(const char* format, std::va_list arguments) {
  std::array<char, kLongestLine> line{};
  // NOLINTNEXTLINE(clang-diagnostic-format-nonliteral): the plugin's
  const int length = std::vsnprintf(line.data(), line.size(), format, arguments);
  std::string text(length < 0 ? "" : line.data());
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return without_controls(text);
}

}  // namespace

extern "C" {

static void tutti_plugin_log(int level, unsigned long flags, const char*, int, const char* format,
                             ...) {
  if (format == nullptr) return;
  const bool is_warning = level == static_cast<int>(LogLevel::kWarn);
  const auto severity = static_cast<LogLevel>(level);
  if (!is_warning && !log_enabled(severity, static_cast<Subsystem>(flags))) return;
  std::va_list arguments;
  va_start(arguments, format);
  std::string text = formatted_line(format, arguments);
  va_end(arguments);
  if (log_enabled(severity, is_warning ? Subsystem::kAll : static_cast<Subsystem>(flags)))
    log_line(severity, "", text);
  if (is_warning) last_warning() = std::move(text);
}

static void tutti_plugin_log_nothing(int, unsigned long, const char*, int, const char*, ...) {}

}  // extern "C"

abi::Logger logger() { return tutti_plugin_log; }
abi::Logger silent_logger() { return tutti_plugin_log_nothing; }

std::string take_last_warning() { return std::exchange(last_warning(), {}); }

}  // namespace tutti::plugin
