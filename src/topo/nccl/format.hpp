// Shared by the reader and the writer of NCCL's topology files: the attributes of each element, and
// how a node keeps attributes and elements. xml.hpp describes the mapping.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "src/topo/format/xml_text.hpp"
#include "src/topo/model/topology.hpp"
#include "tutti/error.hpp"

namespace tutti::topo::nccl {

/// Which elements a node was made of, from the outside in: "pci/gpu".
inline constexpr std::string_view kElements = "elements";

/// The compute capability of a GPU whose file does not say it.
inline constexpr int kAssumedSm = 80;

/// Whether the format gives this attribute to this element.
bool is_known(std::string_view element, std::string_view attribute);

/// An error where an attribute that the format has does not hold what the format says.
Status check_values(const XmlText& xml, pugi::xml_node element);

/// The key under which a node keeps an attribute of an element.
std::string key_of(std::string_view element, std::string_view attribute);

/// The key under which a node keeps the child number `position` of one of its elements.
std::string key_of_child(std::string_view element, std::size_t position);

/// What a key says; views into the key.
struct Key {
  std::string_view element;             ///< "" where the key does not say
  std::string_view attribute;           ///< "" for a child
  std::optional<std::size_t> position;  ///< of a child
};
Key parse_key(std::string_view key);

/// "pci/gpu" and so on; "" for a kind that the format does not have.
std::string_view usual_elements(NodeKind kind);

/// Whether nodes of a kind can be made of these elements.
bool can_be_made_of(NodeKind kind, std::string_view elements);

/// The PCI address 0000:07:00.0, or with a longer domain fffffff:ff:ff.0, as a number in which
/// domain, bus, device and function keep their places; nullopt for what is none.
std::optional<std::uint64_t> parse_bus_id(std::string_view text);

/// What a PCI class code such as 0x030200 says a function is.
enum class PciClass : std::uint8_t { kGpu, kNic, kNvswitch, kCpu, kOther };
PciClass pci_class(std::string_view text);

}  // namespace tutti::topo::nccl
