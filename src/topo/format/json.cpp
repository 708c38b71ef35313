#include "src/topo/format/json.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/base/result.hpp"
#include "src/topo/model/words.hpp"

namespace tutti::topo {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kFormat = "tutti-topology";
constexpr int kVersion = 1;

// ---- writing

std::string in_quotes(std::string_view text) { return Json(text).dump(); }

std::string attributes_member(const std::vector<Attribute>& attributes) {
  if (attributes.empty()) return "";
  std::string members;
  for (const auto& [key, value] : attributes)
    members +=
        fmt::format("{}{}: {}", members.empty() ? "" : ", ", in_quotes(key), in_quotes(value));
  return fmt::format(", \"attributes\": {{{}}}", members);
}

/// Whether `back` is what "duplex" adds to `link`.
bool is_reverse(const Link& link, const Link& back) {
  return back == Link{link.to, link.from, link.kind, link.bandwidth, link.latency};
}

void write_hosts(const Topology& topology, std::string& text) {
  std::string_view separator = "\n";
  for (const Host& host : topology.hosts())
    fmt::format_to(std::back_inserter(text), "{}  {{\"name\": {}{}}}",
                   std::exchange(separator, ",\n"), in_quotes(host.name),
                   attributes_member(host.attributes));
}

void write_nodes(const Topology& topology, std::string& text) {
  std::string_view separator = "\n";
  for (const Node& node : topology.nodes()) {
    const std::string host = node.host == kNoHost ? "" : fmt::format(" \"host\": {},", node.host);
    fmt::format_to(std::back_inserter(text), "{}  {{\"kind\": \"{}\",{} \"name\": {}{}}}",
                   std::exchange(separator, ",\n"), name_of(node.kind), host, in_quotes(node.name),
                   attributes_member(node.attributes));
  }
}

void write_links(const Topology& topology, std::string& text) {
  std::string_view separator = "\n";
  const auto links = topology.links();
  for (std::size_t i = 0; i < links.size(); ++i) {
    const Link& link = links[i];
    const bool duplex = i + 1 < links.size() && is_reverse(link, links[i + 1]);
    fmt::format_to(std::back_inserter(text),
                   "{}  {{\"from\": {}, \"to\": {}, \"kind\": \"{}\", \"bandwidth\": {}, "
                   "\"latency\": {}{}}}",
                   std::exchange(separator, ",\n"), link.from, link.to, name_of(link.kind),
                   link.bandwidth, link.latency, duplex ? ", \"duplex\": true" : "");
    if (duplex) ++i;
  }
}

// ---- reading

/// Ends parsing; caught in parse_topology_json().
struct Refused {
  Error error;
};

template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  throw Refused{make_error(Code::kInvalidArgument, format, std::forward<Args>(args)...)};
}

enum class List : std::uint8_t { kHosts, kNodes, kLinks };
struct ListOf {
  std::string_view name;
  std::size_t most;
  std::initializer_list<std::string_view> required;
  std::initializer_list<std::string_view> optional;
};
const std::array<ListOf, 3>& lists() {
  static const std::array<ListOf, 3> kLists = {{
      {"hosts", Topology::kMostNodes, {"name"}, {"attributes"}},
      {"nodes", Topology::kMostNodes, {"kind", "name"}, {"host", "attributes"}},
      {"links", Topology::kMostLinks, {"from", "to", "kind", "bandwidth", "latency"}, {"duplex"}},
  }};
  return kLists;
}

template <class Name>
bool contains(std::initializer_list<std::string_view> names, const Name& name) {
  return std::ranges::find(names, name) != names.end();
}

/// One host, node or link, and where it stands.
class Element {
 public:
  Element(const Json& json, std::string where) : json_(json), where_(std::move(where)) {}

  [[nodiscard]] bool has(const char* key) const { return json_.contains(key); }

  [[nodiscard]] std::string text(const char* key) const {
    if (!json_[key].is_string()) refuse("{}.{}: must be a string", where_, key);
    return json_[key].get<std::string>();
  }

  /// A number of a host or node.
  [[nodiscard]] std::uint32_t index(const char* key) const {
    constexpr std::uint64_t kLimit = std::numeric_limits<std::uint32_t>::max();
    if (!json_[key].is_number_unsigned() || json_[key].get<std::uint64_t>() >= kLimit)
      refuse("{}.{}: must be the number of an entry of another list, counted from 0", where_, key);
    return json_[key].get<std::uint32_t>();
  }

  [[nodiscard]] double number(const char* key) const {
    if (!json_[key].is_number()) refuse("{}.{}: must be a number", where_, key);
    return json_[key].get<double>();
  }

  [[nodiscard]] bool flag(const char* key) const {
    if (!has(key)) return false;
    if (!json_[key].is_boolean()) refuse("{}.{}: must be true or false", where_, key);
    return json_[key].get<bool>();
  }

  /// A value of an enumeration with `count` values that have names.
  template <class Kind>
  [[nodiscard]] Kind kind(int count) const {
    const std::string name = text("kind");
    std::string known;
    for (int i = 0; i < count; ++i) {
      if (name_of(static_cast<Kind>(i)) == name) return static_cast<Kind>(i);
      known += fmt::format("{}{}", i == 0 ? "" : ", ", name_of(static_cast<Kind>(i)));
    }
    refuse("{}.kind: {} is none of {}", where_, shown(name), known);
  }

  [[nodiscard]] std::vector<Attribute> attributes() const {
    std::vector<Attribute> attributes;
    if (!has("attributes")) return attributes;
    if (!json_["attributes"].is_object()) refuse("{}.attributes: must be an object", where_);
    for (const auto& [key, value] : json_["attributes"].items()) {  // ascending
      if (!value.is_string())
        refuse("{}.attributes: the value of {} must be a string", where_, shown(key));
      attributes.push_back({key, value.get<std::string>()});
    }
    return attributes;
  }

  /// Refuses a number beyond its range.
  void check(const char* key, double value, double least, double most) const {
    if (!(value >= least && value <= most))
      refuse("{}.{}: {} must be from {:g} to {:g}", where_, key, json_[key].dump(), least, most);
  }

 private:
  const Json& json_;
  std::string where_;
};

/// Takes what the parser meets: every element becomes a part when it ends, and is then dropped, so
/// that memory follows the topology and not the text. Refuses at once what has no place.
class JsonReader {
 public:
  /// The parser's callback: whether it keeps `value`.
  bool operator()(int depth, Json::parse_event_t event, const Json& value) {
    using Event = Json::parse_event_t;
    switch (event) {
      case Event::object_start:
        begin_object(depth);
        return true;
      case Event::key:
        key(static_cast<std::size_t>(depth), value.get_ref<const std::string&>());
        return true;
      case Event::object_end:
        if (depth != 2) return true;
        add(value);
        return false;
      case Event::array_start:
        begin_list(depth);
        return true;
      case Event::value:
        check_value(depth);
        return true;
      case Event::array_end:
        return true;
    }
    return true;
  }

  /// Of the whole text, once it was parsed.
  Parts parts(const Json& text) && {
    if (text.value("format", Json()) != kFormat)
      refuse("format: must be \"{}\", or this is another kind of file", kFormat);
    if (!text.contains("version")) refuse("version: is missing; this program reads {}", kVersion);
    if (text["version"] != kVersion)
      refuse("version: is {}, but this program reads {} only", text["version"].dump(), kVersion);
    for (const ListOf& list : lists())
      if (!text.contains(list.name)) refuse("{}: is missing", list.name);
    return std::move(parts_);
  }

  /// The place that is being read.
  [[nodiscard]] std::string where() const {
    if (!list_) return "the text";
    const auto list = static_cast<std::size_t>(*list_);
    return fmt::format("{}[{}]", lists()[list].name, counts_[list]);
  }

 private:
  // Depths: the text 0, its members 1, elements of the lists 2, their members 3, attributes 4.
  void begin_object(int depth) {
    if (depth == 1) refuse("{}: must not be an object", member_);
    if (depth > 3 || (depth == 3 && member_ != "attributes"))
      refuse("{}.{}: must not be an object", where(), member_);
    keys_[static_cast<std::size_t>(depth) + 1].clear();
    if (depth != 2) return;
    const auto list = static_cast<std::size_t>(*list_);
    if (counts_[list] == lists()[list].most)
      refuse("{}: more than {} entries are not accepted", lists()[list].name, lists()[list].most);
  }

  void begin_list(int depth) {
    if (depth == 0) refuse("the text must be an object");
    if (depth == 1 && list_) return;
    refuse("{}: must not be a list", depth == 1 ? member_ : where());
  }

  void check_value(int depth) const {
    if (depth == 0) refuse("the text must be an object");
    if (depth == 1 && list_) refuse("{}: must be a list", member_);
    if (depth == 2) refuse("{}: must be an object", where());
  }

  void key(std::size_t depth, const std::string& name) {
    if (!keys_[depth].insert(name).second)
      refuse("{}: the key {} is there twice", where(), shown(name));
    if (depth == 4) {
      if (keys_[depth].size() > Topology::kMostAttributes)
        refuse("{}: more than {} attributes are not accepted", where(), Topology::kMostAttributes);
      return;
    }
    member_ = name;
    if (depth == 1) return begin_member();
    const ListOf& list = lists()[static_cast<std::size_t>(*list_)];
    if (!contains(list.required, name) && !contains(list.optional, name))
      refuse("{}: the key {} is unknown", where(), shown(name));
  }

  void begin_member() {
    list_.reset();
    for (std::size_t i = 0; i < lists().size(); ++i)
      if (member_ == lists()[i].name) list_ = static_cast<List>(i);
    if (!list_ && member_ != "format" && member_ != "version")
      refuse("the key {} is unknown: is this a topology?", shown(member_));
  }

  void add(const Json& json) {
    const auto list = static_cast<std::size_t>(*list_);
    for (const std::string_view name : lists()[list].required)
      if (!json.contains(name)) refuse("{}: {} is missing", where(), name);
    const Element element(json, where());
    switch (*list_) {
      case List::kHosts:
        parts_.hosts.push_back({element.text("name"), element.attributes()});
        break;
      case List::kNodes:
        parts_.nodes.push_back({element.kind<NodeKind>(kNodeKinds),
                                element.has("host") ? element.index("host") : kNoHost,
                                element.text("name"), element.attributes()});
        break;
      case List::kLinks:
        add_link(element);
        break;
    }
    ++counts_[list];
  }

  void add_link(const Element& element) {
    const Link link{element.index("from"), element.index("to"), element.kind<LinkKind>(kLinkKinds),
                    element.number("bandwidth"), element.number("latency")};
    element.check("bandwidth", link.bandwidth, kLeastBandwidth, kMostBandwidth);
    element.check("latency", link.latency, 0, kMostLatency);
    parts_.links.push_back(link);
    if (element.flag("duplex"))
      parts_.links.push_back({link.to, link.from, link.kind, link.bandwidth, link.latency});
  }

  Parts parts_;
  std::optional<List> list_;  // that is being read
  std::array<std::size_t, 3> counts_{};
  std::string member_;                           // the key read last, but for attributes'
  std::array<std::set<std::string>, 5> keys_{};  // of the object that is being read, by their depth
};

/// What the parser says, without its own way of telling where.
std::string reason(std::string_view what) {
  for (const std::string_view end : {"column ", "] "})
    if (const std::size_t at = what.find(end); at != what.npos) {
      const std::size_t colon = end == "] " ? at : what.find(": ", at);
      if (colon != what.npos) return printable(what.substr(colon + 2), 160);
    }
  return printable(what, 160);
}

}  // namespace

std::string topology_json(const Topology& topology) {
  std::string text =
      fmt::format("{{\"format\": \"{}\", \"version\": {},\n \"hosts\": [", kFormat, kVersion);
  write_hosts(topology, text);
  text += "],\n \"nodes\": [";
  write_nodes(topology, text);
  text += "],\n \"links\": [";
  write_links(topology, text);
  return text + "]}\n";
}

Result<Topology> parse_topology_json(std::string_view text) {
  if (text.size() > kMostJsonBytes)
    return make_error(Code::kInvalidArgument, "{} bytes of JSON are too many: at most {} are read",
                      text.size(), kMostJsonBytes);
  JsonReader reader;
  try {
    const Json rest = Json::parse(text, std::ref(reader));
    return Topology::create(std::move(reader).parts(rest));
  } catch (const Refused& refused) {
    return refused.error;
  } catch (const Json::parse_error& error) {
    return make_error(Code::kInvalidArgument, "{}: {}", position(text, error.byte),
                      reason(error.what()));
  } catch (const Json::exception& error) {
    return make_error(Code::kInvalidArgument, "{}: {}", reader.where(), reason(error.what()));
  }
}

}  // namespace tutti::topo
