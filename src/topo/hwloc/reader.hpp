// The two steps of reading hwloc's XML, xml.cpp and devices.cpp, and the data that they pass on.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "src/topo/format/xml_text.hpp"
#include "src/topo/model/cpu_mask.hpp"
#include "src/topo/model/draft.hpp"
#include "tutti/error.hpp"

namespace tutti::topo::hwloc {

/// A NUMA node with CPUs.
struct Cpu {
  pugi::xml_node numa;     ///< its element
  pugi::xml_node package;  ///< the one it is part of; empty where it spans several
  std::size_t os_index = 0;
  CpuMask cpus;
  std::map<char, std::map<std::int64_t, int>> caches;  ///< how many, by level '1'... and bytes
  NodeId node = 0;                                     ///< in the draft, once added
};

/// The value of an <info> of `object`; "": none.
const char* info(pugi::xml_node object, const char* name);

/// The mask that attribute `key` of `object` holds, empty where there is none.
Result<CpuMask> mask(const XmlText& xml, pugi::xml_node object, const char* key);

/// Adds what hangs on PCI and elsewhere to a draft that has the CPUs.
Status add_devices(const XmlText& xml, const std::vector<Cpu>& cpus, Draft& draft);

}  // namespace tutti::topo::hwloc
