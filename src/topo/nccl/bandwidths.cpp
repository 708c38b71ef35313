// Reads NCCL's topology files: bandwidths from attributes.
#include "src/topo/model/bandwidths.hpp"

#include "src/base/result.hpp"
#include "src/topo/nccl/format.hpp"
#include "src/topo/nccl/reader.hpp"

namespace tutti::topo::nccl {

Result<double> bandwidth_of_pci(const XmlText& xml, pugi::xml_node pci, Assumptions& assumptions) {
  TUTTI_ASSIGN(const auto written, xml.integer_or(pci, "link_width", {-1, 255}, 0));
  const int lanes = written > 0 ? static_cast<int>(written) : kAssumedPciLanes;
  if (written <= 0)
    assumptions.add(pci, fmt::format("a <pci> that says no link_width counts as {} lanes wide",
                                     kAssumedPciLanes));
  if (const auto known = pci_bandwidth(pci.attribute("link_speed").value(), lanes)) return *known;
  assumptions.add(pci, fmt::format("a <pci> whose link_speed is no PCIe generation's counts as "
                                   "generation {}",
                                   kAssumedPciGeneration));
  return *pci_bandwidth(kAssumedPciGeneration, lanes);
}

Result<double> bandwidth_of_cpu(const XmlText& xml, pugi::xml_node cpu, Assumptions& assumptions) {
  constexpr IntegerRange kAny = {INT32_MIN, INT32_MAX};
  TUTTI_ASSIGN(const auto family, xml.integer_or(cpu, "familyid", kAny, 0));
  TUTTI_ASSIGN(const auto model, xml.integer_or(cpu, "modelid", kAny, 0));
  const CpuModel its = {cpu.attribute("arch").value(), cpu.attribute("vendor").value(),
                        static_cast<int>(family), static_cast<int>(model)};
  if (const auto known = cpu_link_bandwidth(its)) return *known;
  assumptions.add(cpu, fmt::format("a <cpu> of no known arch and vendor counts as joined to the "
                                   "others by {} GB/s",
                                   kAssumedCpuLinkBandwidth));
  return kAssumedCpuLinkBandwidth;
}

Result<double> bandwidth_of_nvlink(const XmlText& xml, pugi::xml_node gpu,
                                   Assumptions& assumptions) {
  if (!gpu.attribute("sm"))
    assumptions.add(gpu, fmt::format("a <gpu> without sm counts as sm {}", kAssumedSm));
  TUTTI_ASSIGN(const auto sm, xml.integer_or(gpu, "sm", {1, INT32_MAX}, kAssumedSm));
  return nvlink_bandwidth(static_cast<int>(sm));
}

double bandwidth_of_xgmi(pugi::xml_node gpu, Assumptions& assumptions) {
  if (const auto known = xgmi_bandwidth(gpu.attribute("gcn").value())) return *known;
  assumptions.add(
      gpu, fmt::format("a <gpu> with xGMI links and no known gcn counts as {}", kAssumedGcn));
  return *xgmi_bandwidth(kAssumedGcn);
}

}  // namespace tutti::topo::nccl
