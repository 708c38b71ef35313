#include "src/topo/model/cpu_mask.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "src/base/cpus.hpp"

namespace tutti::topo {
namespace {

constexpr std::size_t kWordBits = 32;

/// All of `text` as a number of base `base`.
std::optional<std::uint32_t> number_of(std::string_view text, int base) {
  std::uint32_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (failure != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// The part of `text` before the next comma, which is taken from it with the comma.
std::string_view take_part(std::string_view& text) {
  const std::string_view part = text.substr(0, text.find(','));
  text.remove_prefix(std::min(part.size() + 1, text.size()));
  return part;
}

}  // namespace

std::optional<CpuMask> CpuMask::from_list(std::string_view text) {
  CpuMask mask;
  while (!text.empty()) {
    const std::string_view part = take_part(text);
    const auto dash = part.find('-');
    const auto first = number_of(part.substr(0, dash), 10);
    const auto last = dash == part.npos ? first : number_of(part.substr(dash + 1), 10);
    if (!first || !last || *first > *last || *last >= kMostCpus) return std::nullopt;
    for (std::size_t cpu = *first; cpu <= *last; ++cpu) mask.add(cpu);
  }
  return mask;
}

std::optional<CpuMask> CpuMask::from_hwloc(std::string_view text) {
  CpuMask mask;
  bool first = true;
  while (!text.empty()) {
    const std::string_view part = take_part(text);
    const bool endless = std::exchange(first, false) && part == "0xf...f";
    std::uint32_t word = 0;
    if (!endless && !part.empty()) {
      const auto number = part.starts_with("0x") ? number_of(part.substr(2), 16) : std::nullopt;
      if (!number) return std::nullopt;
      word = *number;
    }
    mask.words_.push_back(word);
    if (mask.words_.size() * kWordBits > kMostCpus) return std::nullopt;
  }
  std::ranges::reverse(mask.words_);
  mask.trim();
  return mask;
}

std::optional<CpuMask> CpuMask::from_mask(std::string_view text) {
  CpuMask mask;
  while (!text.empty()) {
    const auto word = number_of(take_part(text), 16);
    if (!word || (mask.words_.size() + 1) * kWordBits > kMostCpus) return std::nullopt;
    mask.words_.push_back(*word);
  }
  std::ranges::reverse(mask.words_);
  mask.trim();
  return mask;
}

CpuMask CpuMask::from_words(std::span<const std::uint64_t> words) {
  CpuMask mask;
  for (const std::uint64_t word : words.first(std::min(words.size(), kMostCpus / 64))) {
    mask.words_.push_back(static_cast<std::uint32_t>(word));
    mask.words_.push_back(static_cast<std::uint32_t>(word >> kWordBits));
  }
  mask.trim();
  return mask;
}

void CpuMask::add(std::size_t cpu) {
  if (cpu >= kMostCpus) return;
  words_.resize(std::max(words_.size(), cpu / kWordBits + 1), 0);
  words_[cpu / kWordBits] |= std::uint32_t{1} << (cpu % kWordBits);
}

bool CpuMask::contains(std::size_t cpu) const {
  return cpu / kWordBits < words_.size() && ((words_[cpu / kWordBits] >> (cpu % kWordBits)) & 1U);
}

std::size_t CpuMask::size() const {
  std::size_t size = 0;
  for (const std::uint32_t word : words_) size += static_cast<std::size_t>(std::popcount(word));
  return size;
}

std::size_t CpuMask::lowest() const {
  for (std::size_t i = 0; i < words_.size(); ++i)
    if (words_[i] != 0)
      return i * kWordBits + static_cast<std::size_t>(std::countr_zero(words_[i]));
  return 0;
}

bool CpuMask::is_within(const CpuMask& other) const {
  if (words_.size() > other.words_.size()) return false;
  for (std::size_t i = 0; i < words_.size(); ++i)
    if ((words_[i] & ~other.words_[i]) != 0) return false;
  return true;
}

bool CpuMask::intersects(const CpuMask& other) const {
  for (std::size_t i = 0; i < std::min(words_.size(), other.words_.size()); ++i)
    if ((words_[i] & other.words_[i]) != 0) return true;
  return false;
}

std::string CpuMask::list() const {
  std::string text;
  const std::size_t end = words_.size() * kWordBits;
  for (std::size_t cpu = 0; cpu < end; ++cpu) {
    if (!contains(cpu)) continue;
    const std::size_t first = cpu;
    while (contains(cpu + 1)) ++cpu;
    if (!text.empty()) text += ',';
    text += first == cpu ? fmt::format("{}", first) : fmt::format("{}-{}", first, cpu);
  }
  return text;
}

std::string CpuMask::mask() const {
  if (words_.empty()) return "0";
  std::string text;
  for (std::size_t i = words_.size(); i-- > 0;)
    text += fmt::format("{}{:08x}", text.empty() ? "" : ",", words_[i]);
  return text;
}

void CpuMask::trim() {
  while (!words_.empty() && words_.back() == 0) words_.pop_back();
}

}  // namespace tutti::topo
