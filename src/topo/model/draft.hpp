// The topology of one host while it is built from what a system or a file says.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "src/topo/model/assumptions.hpp"
#include "src/topo/model/topology.hpp"
#include "tutti/error.hpp"

namespace tutti::topo {

/// What a link carries.
struct Pace {
  double bandwidth = 0;  ///< GB/s
  double latency = 0;    ///< microseconds
};

class Draft {
 public:
  Draft();

  /// Words that cannot name a host leave it "host".
  void name_host(std::string_view name);
  /// An attribute of the host; "" says nothing and is dropped, as are words that are not UTF-8.
  void say(std::string_view key, std::string_view value);

  /// A node of the host. Where the name is taken, or is none, it gets "#2", "#3" and so on, or the
  /// name of its kind. Attributes may come in any order; of one key the first stays.
  NodeId add(NodeKind kind, std::string_view name, std::vector<Attribute> attributes);
  void say(NodeId node, std::string_view key, std::string_view value);
  [[nodiscard]] const std::string& value(NodeId node, std::string_view key) const;  ///< "": none

  /// One link, or one each way. A second link of that kind between the same
  /// nodes is not made.
  void link(NodeId from, NodeId to, LinkKind kind, Pace pace);
  void join(NodeId a, NodeId b, LinkKind kind, Pace pace);

  /// Notes what had to be assumed, as Assumptions does.
  void assume(std::string_view sentence) { assumptions_.add(sentence); }
  void assume_of(std::string_view subject, std::string_view reason) {
    assumptions_.add_of(subject, reason);
  }

  [[nodiscard]] const Parts& parts() const { return parts_; }
  /// The nodes of a kind, ascending.
  [[nodiscard]] std::vector<NodeId> nodes(NodeKind kind) const;

  Result<Noted> finish() &&;

 private:
  Parts parts_;
  std::set<std::string, std::less<>> names_;
  std::set<std::tuple<NodeId, NodeId, LinkKind>> joined_;
  Assumptions assumptions_;
};

}  // namespace tutti::topo
