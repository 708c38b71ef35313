#include "src/topo/detect/detect.hpp"

#include <algorithm>
#include <charconv>

#include "src/base/result.hpp"
#include "src/topo/detect/detection.hpp"

namespace tutti::topo {
namespace detection {

std::optional<std::string> Inquiry::word(const std::string& path) {
  const auto text = system_.read_file(path);
  if (!text) return std::nullopt;
  constexpr std::string_view kBlanks = " \t\n\r";
  const std::size_t first = text->find_first_not_of(kBlanks);
  if (first == std::string::npos) return std::nullopt;
  count_answer();
  return text->substr(first, text->find_last_not_of(kBlanks) + 1 - first);
}

std::optional<std::int64_t> Inquiry::number(const std::string& path) {
  const auto text = word(path);
  if (!text) return std::nullopt;
  std::int64_t value = 0;
  const char* const end = text->data() + text->size();
  const auto [stop, failure] = std::from_chars(text->data(), end, value);
  if (failure != std::errc{} || stop != end) return std::nullopt;
  return value;
}

std::vector<std::string> Inquiry::names(const std::string& path) {
  constexpr std::size_t kMost = 4096;
  auto names = system_.list(path);
  if (!names) return {};
  if (!names->empty()) count_answer();
  std::ranges::sort(*names, comes_before);
  if (names->size() > kMost) {
    draft_.assume(fmt::format("{} has {} entries: only the first {} are looked at", path,
                              names->size(), kMost));
    names->resize(kMost);
  }
  return *std::move(names);
}

std::optional<std::string> Inquiry::link_target(const std::string& path) {
  auto target = system_.link_target(path);
  if (!target) return std::nullopt;
  count_answer();
  return *std::move(target);
}

}  // namespace detection

Result<Noted> detect(SystemProbe& system) {
  Draft draft;
  detection::Inquiry ask(system, draft);
  detection::detect_host(ask);
  detection::detect_cpus(ask);
  detection::PciBus pci(ask);
  detection::detect_gpus(ask, pci);
  detection::detect_nics(ask, pci);
  if (ask.answers() == 0)
    return make_error(Code::kUnavailable,
                      "nothing can be read of this system, neither /proc nor /sys: give its "
                      "topology as a file");
  if (!draft.parts().links.empty())
    draft.assume("no system tells the latency of its links: typical ones are assumed");
  return std::move(draft).finish();
}

}  // namespace tutti::topo
