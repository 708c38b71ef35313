#include "src/topo/smi/matrix_text.hpp"

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <optional>

#include "src/base/result.hpp"
#include "src/topo/model/words.hpp"

namespace tutti::topo::smi {
namespace {

constexpr std::size_t kMostText = std::size_t{8} << 20;  // 512 devices take less than half
constexpr std::size_t kMostDevices = 512;
constexpr std::size_t kLongestName = 64;
constexpr int kMostNvlinks = 64;  // of a pair
constexpr int kMostNuma = 65535;

struct Line {
  std::size_t number = 0;
  std::vector<std::string_view> words;
};

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/// Without colours, which are ESC [ ... m.
std::string plain(std::string_view text) {
  std::string kept;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool begins = text[at] == '\x1b' && at + 1 < text.size() && text[at + 1] == '[';
    const std::size_t end = begins ? text.find_first_not_of("0123456789;", at + 2) : text.npos;
    if (end != text.npos && text[end] == 'm')
      at = end;
    else
      kept += text[at];
  }
  return kept;
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at < line.size();) {
    if (is_blank(line[at])) {
      ++at;
      continue;
    }
    std::size_t end = at;
    while (end < line.size() && !is_blank(line[end])) ++end;
    words.push_back(line.substr(at, end - at));
    at = end;
  }
  return words;
}

/// The lines of a text, one after the other.
class Lines {
 public:
  explicit Lines(std::string_view text) : text_(text) {}

  std::optional<Line> next() {
    if (at_ >= text_.size()) return std::nullopt;
    const std::size_t end = std::min(text_.find('\n', at_), text_.size());
    Line line{++number_, words_of(text_.substr(at_, end - at_))};
    at_ = end + 1;
    return line;
  }
  [[nodiscard]] std::size_t number() const { return number_; }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t number_ = 0;
};

std::optional<int> number(std::string_view text, int most) {
  int value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{} || end != text.data() + text.size() || value < 0 || value > most)
    return std::nullopt;
  return value;
}

bool is_gpu(std::string_view name) {
  return name.starts_with("GPU") && number(name.substr(3), INT32_MAX).has_value();
}

bool fits_as_name(std::string_view word) { return word.size() <= kLongestName && is_name(word); }

std::optional<Cell> cell_of(std::string_view word) {
  constexpr std::pair<std::string_view, Distance> kWords[] = {
      {"X", Distance::kSelf},         {"PIX", Distance::kSwitch}, {"PXB", Distance::kSwitches},
      {"PHB", Distance::kHostBridge}, {"NODE", Distance::kNode},  {"SYS", Distance::kSystem},
      {"SOC", Distance::kSystem},  // drivers before 375
  };
  for (const auto& [its, distance] : kWords)
    if (its == word) return Cell{distance, 0};
  if (!word.starts_with("NV")) return std::nullopt;
  const auto links = number(word.substr(2), kMostNvlinks);
  if (!links || *links == 0) return std::nullopt;
  return Cell{Distance::kSystem, *links};
}

class Parser {
 public:
  explicit Parser(std::string_view text) : lines_(text) {}

  Result<Matrix> run() {
    std::optional<Line> line = lines_.next();
    while (line && (line->words.empty() || line->words[0] != "GPU0")) line = lines_.next();
    if (!line) return error_in(1, "no line begins with GPU0: there is no matrix");
    TUTTI_TRY(read_head(*line));
    std::size_t row = 0;
    while (row < devices() && (line = lines_.next()))
      if (!line->words.empty()) TUTTI_TRY(read_row(*line, row++));
    if (row < devices())
      return error_in(lines_.number(),
                      fmt::format("the text ends after {} of {} rows", row, devices()));
    TUTTI_TRY(check_symmetry());
    while ((line = lines_.next())) read_legend(*line);
    return std::move(matrix_);
  }

 private:
  [[nodiscard]] std::size_t devices() const { return matrix_.devices.size(); }

  /// Names up to "CPU Affinity", "NUMA Affinity", "GPU NUMA ID", of which a driver has some.
  Status read_head(const Line& line) {
    const auto& words = line.words;
    std::size_t at = 0;
    for (; at < words.size() && words[at] != "CPU" && words[at] != "NUMA" && words[at] != "GPU";
         ++at) {
      if (devices() == kMostDevices)
        return error_in(line.number,
                        fmt::format("more than {} devices are not read", kMostDevices));
      if (!fits_as_name(words[at]))
        return error_in(line.number, fmt::format("{} is no name of a device", shown(words[at])));
      if (!numbers_.emplace(words[at], devices()).second)
        return error_in(line.number, fmt::format("there are two devices {}", shown(words[at])));
      Device device;
      device.name = words[at];
      device.is_gpu = is_gpu(words[at]);
      matrix_.devices.push_back(std::move(device));
    }
    for (; at + 1 < words.size(); ++at) {
      if (words[at + 1] != "Affinity") continue;
      if (words[at] == "CPU") tells_cpus_ = true;
      if (words[at] == "NUMA") tells_numa_ = true;
    }
    return ok_status();
  }

  Status read_row(const Line& line, std::size_t row) {
    Device& device = matrix_.devices[row];
    device.line = line.number;
    if (line.words[0] != device.name)
      return error_in(line.number, fmt::format("the row of {} was expected, found {}",
                                               shown(device.name), shown(line.words[0])));
    if (line.words.size() < devices() + 1)
      return error_in(line.number, fmt::format("{} says how to reach {} devices of {}", device.name,
                                               line.words.size() - 1, devices()));
    for (std::size_t other = 0; other < devices(); ++other) {
      const std::string_view word = line.words[other + 1];
      const auto cell = cell_of(word);
      const bool fits = cell &&
                        (cell->nvlinks == 0 || (device.is_gpu && matrix_.devices[other].is_gpu)) &&
                        (cell->distance == Distance::kSelf) == (other == row);
      if (!fits)
        return error_in(
            line.number,
            fmt::format("{} to {}: X, PIX, PXB, PHB, NODE, SYS or, between GPUs, NV# was "
                        "expected, found {}",
                        device.name, matrix_.devices[other].name, shown(word)));
      device.to.push_back(*cell);
    }
    read_affinity(std::span(line.words).subspan(devices() + 1), device);
    return ok_status();
  }

  /// "0-23,48-71", then "0", "0-1" or "N/A"; rows of NICs have neither.
  void read_affinity(std::span<const std::string_view> words, Device& device) const {
    if (tells_cpus_ && !words.empty()) {
      if (auto cpus = CpuMask::from_list(words[0])) device.cpus = *std::move(cpus);
      words = words.subspan(1);
    }
    if (!tells_numa_ || words.empty()) return;
    const std::string_view first = words[0].substr(0, words[0].find_first_of("-,"));
    device.numa = number(first, kMostNuma).value_or(-1);
  }

  Status check_symmetry() const {
    for (std::size_t a = 0; a < devices(); ++a)
      for (std::size_t b = 0; b < a; ++b) {
        const Cell& there = matrix_.devices[a].to[b];
        const Cell& back = matrix_.devices[b].to[a];
        if (there.distance != back.distance || there.nvlinks != back.nvlinks)
          return error_in(matrix_.devices[a].line,
                          fmt::format("{} reaches {} in another way than the other reaches it",
                                      matrix_.devices[a].name, matrix_.devices[b].name));
      }
    return ok_status();
  }

  /// "NIC0: mlx5_0"
  void read_legend(const Line& line) {
    if (line.words.size() != 2 || !line.words[0].ends_with(':')) return;
    const auto named = numbers_.find(line.words[0].substr(0, line.words[0].size() - 1));
    if (named == numbers_.end() || !fits_as_name(line.words[1])) return;
    Device& device = matrix_.devices[named->second];
    if (!device.is_gpu) device.name = line.words[1];
  }

  Lines lines_;
  Matrix matrix_;
  std::map<std::string, std::size_t, std::less<>> numbers_;  // of devices, by name in the head
  bool tells_cpus_ = false;
  bool tells_numa_ = false;
};

}  // namespace

Result<Matrix> parse_matrix(std::string_view text) {
  if (text.size() > kMostText)
    return error_in(1, fmt::format("the text has {} bytes, more than a matrix of {} devices",
                                   text.size(), kMostDevices));
  const std::string kept = plain(text);
  return Parser(kept).run();
}

Error error_in(std::size_t line, std::string_view what) {
  return make_error(Code::kInvalidArgument, "line {}: {}", line, what);
}

}  // namespace tutti::topo::smi
