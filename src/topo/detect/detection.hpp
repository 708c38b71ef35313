// The steps of detection (cpus.cpp, gpus.cpp, host.cpp, nics.cpp, pci.cpp), and the data that they
// pass on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/topo/detect/probe.hpp"
#include "src/topo/model/draft.hpp"
#include "src/topo/model/host_parts.hpp"

namespace tutti::topo::detection {

/// A system that is being asked, and what is known of it so far.
class Inquiry {
 public:
  Inquiry(SystemProbe& system, Draft& draft) : system_(system), draft_(draft) {}

  [[nodiscard]] SystemProbe& system() { return system_; }
  [[nodiscard]] Draft& draft() { return draft_; }

  /// What a file holds, without blanks at its ends; nullopt where it cannot be read or is empty.
  std::optional<std::string> word(const std::string& path);
  /// The integer that a file holds in decimal; nullopt for anything else.
  std::optional<std::int64_t> number(const std::string& path);
  /// The names in a directory, numbers in them by their value, at most 4,096; none where it cannot
  /// be read.
  std::vector<std::string> names(const std::string& path);
  std::optional<std::string> link_target(const std::string& path);
  bool exists(const std::string& file) { return system_.read_file(file).ok(); }

  /// How many questions were answered with something usable.
  [[nodiscard]] std::size_t answers() const { return answers_; }
  void count_answer() { ++answers_; }

 private:
  SystemProbe& system_;
  Draft& draft_;
  std::size_t answers_ = 0;
};

void detect_host(Inquiry& ask);
/// At least one CPU node.
void detect_cpus(Inquiry& ask);

struct PciFunction {
  std::string bus_id;
  std::uint32_t pci_class = 0, vendor = 0;
  std::vector<std::string> path;  ///< addresses from the host bridge to the function, the last
  std::vector<Attribute> attributes;
  std::string physical;  ///< the physical function of which this is a virtual one; "": none

  [[nodiscard]] PciRole role() const { return pci_role(pci_class, vendor); }
};

/// The PCI functions of a system. Needs the CPUs.
class PciBus {
 public:
  explicit PciBus(Inquiry& ask);

  /// By address.
  [[nodiscard]] const std::map<std::string, PciFunction>& functions() const { return functions_; }
  [[nodiscard]] const PciFunction* find(const std::string& bus_id) const;

  /// How fast a function's link is. One that rests when idle lowers its speed and width meanwhile.
  enum class Idle : std::uint8_t { kRests, kStays };
  /// Joins the node of a function to its CPU, and gives it the function's attributes. A function
  /// that is not known is joined to the first CPU.
  void attach(NodeId device, const std::string& bus_id, Idle idle);
  /// The CPU that a function belongs to.
  NodeId cpu_of(const std::string& bus_id);

 private:
  void read(const std::string& bus_id);
  std::vector<PciHop> hops_of(const std::vector<std::string>& path, Idle idle);
  PciHop hop(const std::string& bus_id, const std::string& above, Idle idle);

  Inquiry& ask_;
  std::map<std::string, PciFunction> functions_;
};

void detect_gpus(Inquiry& ask, PciBus& pci);
void detect_nics(Inquiry& ask, PciBus& pci);

}  // namespace tutti::topo::detection
