// A set of logical CPUs or NUMA nodes, in the notations of Linux, hwloc and NCCL.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::topo {

/// Value. Members are below kMostCpus (src/base/cpus.hpp); larger ones are not read.
class CpuMask {
 public:
  /// Linux's lists: "0-3,8"; "" is the empty set. nullopt for what is none.
  static std::optional<CpuMask> from_list(std::string_view text);
  /// hwloc's masks: words of 32 bits, "0x0000000f,0x00000001", the highest first; "0xf...f" in
  /// front stands for all CPUs above, of which there are none. nullopt for what is none.
  static std::optional<CpuMask> from_hwloc(std::string_view text);
  /// What mask() writes: "0000000f,00000001", the highest word first. nullopt for what is none.
  static std::optional<CpuMask> from_mask(std::string_view text);
  /// Bit c % 64 of word c / 64: CPU c.
  static CpuMask from_words(std::span<const std::uint64_t> words);

  void add(std::size_t cpu);
  [[nodiscard]] bool contains(std::size_t cpu) const;
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] bool empty() const { return words_.empty(); }
  /// The lowest member; 0 for the empty set.
  [[nodiscard]] std::size_t lowest() const;
  /// Whether all members are in `other`.
  [[nodiscard]] bool is_within(const CpuMask& other) const;
  /// Whether any member is in `other`.
  [[nodiscard]] bool intersects(const CpuMask& other) const;

  /// "0-3,8".
  [[nodiscard]] std::string list() const;
  /// "0000000f,00000001", as in sysfs and in NCCL's `affinity`; "0" for the empty set.
  [[nodiscard]] std::string mask() const;

  friend bool operator==(const CpuMask&, const CpuMask&) = default;

 private:
  void trim();

  std::vector<std::uint32_t> words_;  // bit c % 32 of word c / 32: CPU c; the last is not 0
};

}  // namespace tutti::topo
