// Any text is refused or a log, of which every line that is written again is read again, and that
// can be drawn.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tools/train/plot.hpp"
#include "tools/train/step_log.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti::trainer;  // NOLINT(google-build-using-namespace)
  const auto log = parse_log({reinterpret_cast<const char*>(data), size});
  if (!log) return 0;
  std::string text;
  for (const RunRecord& run : log->runs) text += json_line(run);
  for (const StepRecord& step : log->steps) text += json_line(step);
  const auto again = parse_log(text);
  if (!again || again->runs != log->runs || again->steps.size() != log->steps.size()) std::abort();
  if (const auto svg = plot_svg(*log, "a run"); svg && svg->size() > 1'000'000) std::abort();
  return 0;
}
