#include "src/topo/model/draft.hpp"

#include <algorithm>
#include <utility>

#include "src/base/result.hpp"
#include "src/topo/model/words.hpp"

namespace tutti::topo {
namespace {

void put(std::vector<Attribute>& attributes, std::string_view key, std::string_view value) {
  if (key.empty() || value.empty() || !is_utf8(key) || !is_utf8(value)) return;
  const auto at = std::ranges::lower_bound(attributes, key, {}, &Attribute::key);
  if (at != attributes.end() && at->key == key) return;
  attributes.insert(at, Attribute{std::string(key), std::string(value)});
}

}  // namespace

Draft::Draft() { parts_.hosts.push_back({"host", {}}); }

void Draft::name_host(std::string_view name) {
  if (is_name(name)) parts_.hosts[0].name = name;
}

void Draft::say(std::string_view key, std::string_view value) {
  put(parts_.hosts[0].attributes, key, value);
}

NodeId Draft::add(NodeKind kind, std::string_view name, std::vector<Attribute> attributes) {
  constexpr std::size_t kLongest = 200;  // leaves room for the number
  const std::string base(is_name(name) && name.size() <= kLongest ? name : name_of(kind));
  std::string unique = base;
  for (int number = 2; !names_.insert(unique).second; ++number)
    unique = fmt::format("{}#{}", base, number);
  const auto id = static_cast<NodeId>(parts_.nodes.size());
  parts_.nodes.push_back({kind, 0, std::move(unique), {}});
  for (const auto& [key, value] : attributes) say(id, key, value);
  return id;
}

void Draft::say(NodeId node, std::string_view key, std::string_view value) {
  put(parts_.nodes[node].attributes, key, value);
}

const std::string& Draft::value(NodeId node, std::string_view key) const {
  static const std::string none;
  const auto& attributes = parts_.nodes[node].attributes;
  const auto found = std::ranges::lower_bound(attributes, key, {}, &Attribute::key);
  return found != attributes.end() && found->key == key ? found->value : none;
}

void Draft::link(NodeId from, NodeId to, LinkKind kind, Pace pace) {
  if (from != to && joined_.emplace(from, to, kind).second)
    parts_.links.push_back({from, to, kind, pace.bandwidth, pace.latency});
}

void Draft::join(NodeId a, NodeId b, LinkKind kind, Pace pace) {
  link(a, b, kind, pace);
  link(b, a, kind, pace);
}

std::vector<NodeId> Draft::nodes(NodeKind kind) const {
  std::vector<NodeId> found;
  for (NodeId id = 0; id < parts_.nodes.size(); ++id)
    if (parts_.nodes[id].kind == kind) found.push_back(id);
  return found;
}

Result<Noted> Draft::finish() && {
  TUTTI_ASSIGN(Topology topology, Topology::create(std::move(parts_)));
  return Noted{std::move(topology), assumptions_.sentences()};
}

}  // namespace tutti::topo
