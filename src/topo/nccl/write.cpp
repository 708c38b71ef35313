// Writes NCCL's topology files: the text.
#include <algorithm>
#include <map>
#include <ranges>
#include <set>
#include <span>
#include <utility>

#include "src/base/result.hpp"
#include "src/topo/model/words.hpp"
#include "src/topo/nccl/format.hpp"
#include "src/topo/nccl/writer.hpp"
#include "src/topo/nccl/xml.hpp"

namespace tutti::topo {
namespace nccl {
namespace {

/// What pugixml reads as the name of an attribute.
bool is_xml_name(std::string_view name) {
  const auto may_begin = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ':' ||
           static_cast<unsigned char>(c) >= 0x80;
  };
  const auto may_follow = [&](char c) {
    return may_begin(c) || (c >= '0' && c <= '9') || c == '-' || c == '.';
  };
  return !name.empty() && may_begin(name.front()) && std::ranges::all_of(name, may_follow);
}

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  for (const auto part : std::views::split(text, '/')) parts.emplace_back(part.begin(), part.end());
  return parts;
}

/// A child that was kept as text.
struct KeptChild {
  std::size_t position = 0;
  std::string_view text;
};

class Writer {
 public:
  explicit Writer(const Topology& topology)
      : topology_(topology), tree_(find_tree(topology)), from_xml_(is_from_xml(topology)) {
    if (!from_xml_) derived_ = derive_words(topology, tree_);
    for (const NodeId id : tree_.loose) loose_[topology.node(id).host].push_back(id);
  }

  Result<std::string> run() {
    pugi::xml_node system = document_.append_child("system");
    if (!from_xml_) system.append_attribute("version") = "1";
    if (!topology_.hosts().empty())
      TUTTI_TRY(add_words({&system, 1}, topology_.hosts()[0].attributes, "the first host"));
    for (const NodeId cpu : tree_.roots) TUTTI_TRY(add_node(system, cpu, 1));
    TUTTI_TRY(add_hosts_without_cpu(system));
    for (auto& [element, children] : kept_) TUTTI_TRY(insert(element, children));
    return to_lines(system);
  }

 private:
  static bool is_from_xml(const Topology& topology) {
    return !topology.hosts().empty() &&
           std::ranges::any_of(topology.hosts()[0].attributes, [](const Attribute& attribute) {
             return attribute.key == "system.version";
           });
  }

  Status add_hosts_without_cpu(pugi::xml_node system) {
    for (const auto& [host, nodes] : std::exchange(loose_, {})) {
      pugi::xml_node cpu = system.append_child("cpu");
      cpu.append_attribute("numaid") = "-1";
      if (topology_.hosts().size() > 1)
        cpu.append_attribute("host_hash") = fmt::format("{:#x}", host + 1).c_str();
      for (const NodeId id : nodes) TUTTI_TRY(add_node(cpu, id, 2));
    }
    return ok_status();
  }

  /// `level` is the depth of `outer`, and bounds that of the recursion.
  Status add_node(pugi::xml_node outer, NodeId id, int level) {
    const Node& node = topology_.node(id);
    const std::string whose = fmt::format("node {}", shown(full_name(topology_, id)));
    TUTTI_ASSIGN(const auto elements, make_elements(outer, node, whose));
    if (level + static_cast<int>(elements.size()) > XmlText::kMostDepth)
      return make_error(Code::kInvalidArgument, "{} lies too many PCIe links from its CPU", whose);
    TUTTI_TRY(add_words(elements, node.attributes, whose));
    if (!from_xml_) TUTTI_TRY(add_words(elements, derived_[id], whose));
    for (const NodeId inner : tree_.inside[id])
      TUTTI_TRY(add_node(elements.back(), inner, level + 1));
    if (node.kind != NodeKind::kCpu) return ok_status();
    // What hangs on no CPU of the host stands in its first one.
    for (const NodeId inner : std::exchange(loose_[node.host], {}))
      TUTTI_TRY(add_node(elements.back(), inner, level + 1));
    loose_.erase(node.host);
    return ok_status();
  }

  /// The elements that a node is made of, from the outside in, the first one in `outer`.
  static Result<std::vector<pugi::xml_node>> make_elements(pugi::xml_node outer, const Node& node,
                                                           const std::string& whose) {
    const auto said = std::ranges::find(node.attributes, kElements, &Attribute::key);
    const std::string_view made_of =
        said == node.attributes.end() ? usual_elements(node.kind) : said->value;
    if (!can_be_made_of(node.kind, made_of))
      return make_error(Code::kInvalidArgument, "{}: a {} is not made of the elements {}", whose,
                        name_of(node.kind), shown(made_of));
    if (made_of == "net") {  // of the same NIC as the node before
      const pugi::xml_node last = outer.last_child();
      const bool nic_is_open = std::string_view(last.name()) == "nic";
      outer = nic_is_open ? last : outer.append_child("nic");
    }
    std::vector<pugi::xml_node> elements;
    for (const std::string& name : split(made_of)) {
      outer = outer.append_child(name.c_str());
      elements.push_back(outer);
    }
    return elements;
  }

  /// Puts attributes and kept children of a node into its elements.
  Status add_words(std::span<const pugi::xml_node> elements, std::span<const Attribute> words,
                   const std::string& whose) {
    std::map<std::size_t, std::vector<KeptChild>> children;  // by position in elements
    for (const auto& [key, value] : words) {
      if (key == kElements) continue;
      const Key says = parse_key(key);
      const auto named = std::ranges::find_if(elements, [&](pugi::xml_node element) {
        return says.element.empty() ? is_known(element.name(), says.attribute)
                                    : element.name() == says.element;
      });
      const bool found = named != elements.end();
      const auto at =
          found ? static_cast<std::size_t>(named - elements.begin()) : elements.size() - 1;
      if (found && says.position) {
        children[at].push_back({*says.position, value});
        continue;
      }
      const std::string name(found ? says.attribute : key);
      if (!is_xml_name(name) || value.find('\0') != std::string::npos)
        return make_error(Code::kInvalidArgument, "{}: the attribute {} cannot stand in XML", whose,
                          shown(key));
      pugi::xml_node element = elements[at];
      if (!element.attribute(name.c_str())) element.append_attribute(name.c_str()) = value.c_str();
    }
    for (auto& [at, of_one] : children) kept_.emplace_back(elements[at], std::move(of_one));
    return ok_status();
  }

  /// Puts kept children back where they stood among those that made nodes.
  static Status insert(pugi::xml_node element, std::vector<KeptChild>& children) {
    std::ranges::sort(children, {}, &KeptChild::position);
    pugi::xml_node next = element.first_child();
    std::size_t position = 0;
    for (const KeptChild& child : children) {
      for (; next && position < child.position; ++position) next = next.next_sibling();
      const auto read = XmlText::parse(child.text, "");
      if (!read)
        return make_error(Code::kInvalidArgument, "the child {} of <{}>, {}: {}", child.position,
                          element.name(), shown(child.text), read.error().what);
      if (next) {
        element.insert_copy_before(read->root(), next);
      } else {
        element.append_copy(read->root());
      }
      ++position;
    }
    return ok_status();
  }

  const Topology& topology_;
  const Tree tree_;
  const bool from_xml_;
  std::vector<std::vector<Attribute>> derived_;  // of each node; empty if from_xml_
  std::map<HostId, std::vector<NodeId>> loose_;  // by host, until they are written
  pugi::xml_document document_;
  std::vector<std::pair<pugi::xml_node, std::vector<KeptChild>>> kept_;
};

}  // namespace
}  // namespace nccl

Result<std::string> write_nccl_xml(const Topology& topology) {
  return nccl::Writer(topology).run();
}

}  // namespace tutti::topo
