#include "src/topo/nccl/graph.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <set>
#include <utility>

#include "src/base/result.hpp"
#include "src/topo/format/xml_text.hpp"
#include "src/topo/model/words.hpp"

namespace tutti::topo {
namespace {

constexpr std::int64_t kMostChannels = 1024;
constexpr IntegerRange kNumber = {0, std::numeric_limits<std::int32_t>::max()};
constexpr IntegerRange kNet = {0, std::numeric_limits<std::int64_t>::max()};  // with a host

bool is(pugi::xml_node element, std::string_view name) { return element.name() == name; }

/// All attributes but those of `taken`, ascending.
std::vector<Attribute> other_attributes(pugi::xml_node element,
                                        std::initializer_list<std::string_view> taken) {
  std::vector<Attribute> others;
  for (const pugi::xml_attribute attribute : element.attributes())
    if (std::ranges::find(taken, attribute.name()) == taken.end())
      others.push_back({attribute.name(), attribute.value()});
  std::ranges::sort(others, {}, &Attribute::key);
  return others;
}

class GraphReader {
 public:
  explicit GraphReader(const XmlText& xml) : xml_(xml) {}

  Result<std::vector<Graph>> run() {
    TUTTI_TRY(xml_.integer(xml_.root(), "version", {1, 1}));
    if (std::ranges::distance(xml_.root().attributes()) != 1)
      return xml_.error(xml_.root(), "<graphs> has no attribute but version");
    std::vector<Graph> graphs;
    for (const pugi::xml_node child : xml_.root().children()) {
      if (!is(child, "graph")) return unknown(child);
      TUTTI_ASSIGN(Graph graph, read_graph(child));
      graphs.push_back(std::move(graph));
    }
    return graphs;
  }

 private:
  [[nodiscard]] Error unknown(pugi::xml_node element) const {
    return xml_.error(
        element, fmt::format("<{}> cannot stand in <{}>", element.name(), element.parent().name()));
  }

  Result<Graph> read_graph(pugi::xml_node element) {
    TUTTI_TRY(check_values(element));
    TUTTI_ASSIGN(const auto id, xml_.integer(element, "id", {0, 4}));
    TUTTI_ASSIGN(const auto pattern, xml_.integer(element, "pattern", {1, 6}));
    TUTTI_ASSIGN(const auto said, xml_.integer(element, "nchannels", {0, kMostChannels}));
    Graph graph = {id,
                   static_cast<GraphPattern>(pattern),
                   other_attributes(element, {"id", "pattern", "nchannels"}),
                   {}};
    for (const pugi::xml_node child : element.children()) {
      if (!is(child, "channel")) return unknown(child);
      TUTTI_ASSIGN(auto channel, read_channel(child));
      graph.channels.push_back(std::move(channel));
    }
    if (static_cast<std::int64_t>(graph.channels.size()) != said)
      return xml_.error(element, fmt::format("<graph> has nchannels={} and holds {} channels", said,
                                             graph.channels.size()));
    return graph;
  }

  [[nodiscard]] Status check_values(pugi::xml_node graph) const {
    TUTTI_TRY(xml_.integer_or(graph, "crossnic", {0, 2}, 0));
    TUTTI_TRY(xml_.integer_or(graph, "samechannels", {0, 1}, 0));
    for (const char* key : {"speedintra", "speedinter", "latencyinter"})
      TUTTI_TRY(xml_.real_or(graph, key, 0));
    constexpr std::array<std::string_view, 12> kPaths = {"LOC", "NVL", "NVB", "C2C", "PIX", "PXB",
                                                         "P2C", "PXN", "PHB", "SYS", "NET", "DIS"};
    for (const char* key : {"typeintra", "typeinter"}) {
      const pugi::xml_attribute type = graph.attribute(key);
      if (type && std::ranges::find(kPaths, type.value()) == kPaths.end())
        return xml_.wrong_value(type, graph, "a kind of path such as NVL, PIX or SYS");
    }
    return ok_status();
  }

  /// NICs stand at the ends only, and GPUs are there.
  Result<std::vector<GraphStop>> read_channel(pugi::xml_node element) {
    if (element.first_attribute()) return xml_.error(element, "<channel> has no attributes");
    std::vector<GraphStop> stops;
    bool has_gpu = false;
    for (const pugi::xml_node child : element.children()) {
      TUTTI_ASSIGN(GraphStop stop, read_stop(child));
      const bool net = stop.kind == GraphStop::Kind::kNet;
      if (net && child.previous_sibling() && child.next_sibling())
        return xml_.error(child,
                          "<net> stands between GPUs: data enters and leaves a host at the "
                          "ends of a channel");
      has_gpu = has_gpu || !net;
      stops.push_back(std::move(stop));
    }
    if (!has_gpu) return xml_.error(element, "<channel> holds no <gpu>");
    return stops;
  }

  Result<GraphStop> read_stop(pugi::xml_node element) {
    if (!is(element, "net") && !is(element, "gpu")) return unknown(element);
    if (element.first_child()) return unknown(element.first_child());
    const bool by_rank = is(element, "gpu") && !element.attribute("dev");
    const char* key = by_rank ? "rank" : "dev";
    const bool net = is(element, "net");
    if (by_rank && !element.attribute(key))
      return xml_.error(element, "<gpu> lacks dev, and rank in its place");
    TUTTI_ASSIGN(const auto number,
                 net ? net_number(element) : xml_.integer(element, key, kNumber));
    const auto kind = net       ? GraphStop::Kind::kNet
                      : by_rank ? GraphStop::Kind::kGpuByRank
                                : GraphStop::Kind::kGpuByDev;
    return GraphStop{kind, number, element.attribute(key).value(),
                     other_attributes(element, {key})};
  }

  /// NCCL writes those that carry a host in hexadecimal.
  [[nodiscard]] Result<std::int64_t> net_number(pugi::xml_node net) const {
    const std::string_view text = net.attribute("dev").value();
    if (!text.starts_with("0x")) return xml_.integer(net, "dev", kNet);
    std::int64_t number = 0;
    const auto [end, failure] =
        std::from_chars(text.data() + 2, text.data() + text.size(), number, 16);
    if (failure != std::errc{} || end != text.data() + text.size() || number < 0)
      return xml_.wrong_value(net.attribute("dev"), net, "a number below 2^63");
    return number;
  }

  const XmlText& xml_;
};

void append(pugi::xml_node element, const std::vector<Attribute>& attributes) {
  for (const auto& [key, value] : attributes) element.append_attribute(key.c_str()) = value.c_str();
}

const std::string* find(const Node& node, std::string_view key) {
  const auto found = std::ranges::find(node.attributes, key, &Attribute::key);
  return found == node.attributes.end() ? nullptr : &found->value;
}

/// The numbers that nodes of a kind have under a key.
std::set<std::int64_t> numbers(const Topology& topology, NodeKind kind, std::string_view key) {
  std::set<std::int64_t> all;
  for (const Node& node : topology.nodes()) {
    const std::string* text = node.kind == kind ? find(node, key) : nullptr;
    std::int64_t number = 0;
    if (text == nullptr) continue;
    const auto [end, failure] = std::from_chars(text->data(), text->data() + text->size(), number);
    if (failure == std::errc{} && end == text->data() + text->size()) all.insert(number);
  }
  return all;
}

std::string_view name_of(GraphStop::Kind kind) {
  constexpr std::array<std::string_view, 3> kNames = {"net of dev", "gpu of dev", "gpu of rank"};
  return kNames[static_cast<std::size_t>(kind)];
}

}  // namespace

Result<std::vector<Graph>> read_nccl_graph(std::string_view text) {
  TUTTI_ASSIGN(const XmlText xml, XmlText::parse(text, "graphs"));
  return GraphReader(xml).run();
}

std::string write_nccl_graph(const std::vector<Graph>& graphs) {
  pugi::xml_document document;
  pugi::xml_node root = document.append_child("graphs");
  root.append_attribute("version") = "1";
  for (const Graph& graph : graphs) {
    pugi::xml_node element = root.append_child("graph");
    element.append_attribute("id") = std::to_string(graph.id).c_str();
    element.append_attribute("pattern") = static_cast<int>(graph.pattern);
    element.append_attribute("nchannels") = std::to_string(graph.channels.size()).c_str();
    append(element, graph.attributes);
    for (const auto& channel : graph.channels) {
      pugi::xml_node walk = element.append_child("channel");
      for (const GraphStop& stop : channel) {
        pugi::xml_node at = walk.append_child(stop.kind == GraphStop::Kind::kNet ? "net" : "gpu");
        const bool by_rank = stop.kind == GraphStop::Kind::kGpuByRank;
        const std::string number = stop.text.empty() ? std::to_string(stop.number) : stop.text;
        at.append_attribute(by_rank ? "rank" : "dev") = number.c_str();
        append(at, stop.others);
      }
    }
  }
  return to_lines(root);
}

Status check(const std::vector<Graph>& graphs, const Topology& topology) {
  const std::array known = {numbers(topology, NodeKind::kNic, "dev"),
                            numbers(topology, NodeKind::kGpu, "dev"),
                            numbers(topology, NodeKind::kGpu, "rank")};
  for (const Graph& graph : graphs)
    for (std::size_t channel = 0; channel < graph.channels.size(); ++channel) {
      std::set<std::pair<GraphStop::Kind, std::int64_t>> met;
      for (const GraphStop& stop : graph.channels[channel]) {
        const auto wrong = [&](std::string_view why) {
          return make_error(Code::kInvalidArgument, "graph {} channel {}: {} {} {}", graph.id,
                            channel, name_of(stop.kind), stop.number, why);
        };
        if (!known[static_cast<std::size_t>(stop.kind)].contains(stop.number))
          return wrong("is not in the topology");
        if (stop.kind != GraphStop::Kind::kNet && !met.emplace(stop.kind, stop.number).second)
          return wrong("stands in it twice");
      }
    }
  return ok_status();
}

}  // namespace tutti::topo
