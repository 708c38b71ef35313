// The network of a simulated job: links, the path over them for each lane between two ranks, and
// the trees on which switches add and copy for groups of ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/ir/schedule.hpp"
#include "src/sim/fair_shares.hpp"
#include "src/topo/model/aggregation.hpp"
#include "src/topo/model/topology.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti::sim {

/// One direction of a wire. Value.
struct Link {
  double bandwidth = 0;  ///< GB/s (1e9 bytes per second), greater than 0
  double latency = 0;    ///< microseconds, not negative
  std::string name;      ///< for reports: "rank 3 up"
  friend bool operator==(const Link&, const Link&) = default;
};

/// What a message costs besides its time on links. Value.
struct MessageCosts {
  double send_us = 0;           ///< sender's work
  double send_ps_per_byte = 0;  ///< sender's work per byte
  double receive_us = 0;        ///< receiver's work
  double receive_ps_per_byte = 0;
  double latency_us = 0;  ///< adds to the links' latency; occupies no rank
};

/// What adds and copies for one group: a tree of switches whose leaves are the members. Value.
struct NetworkTree {
  struct Member {
    std::vector<LinkId> up;    ///< from the member to the root, in order; none twice
    std::vector<LinkId> down;  ///< from the root to the member
  };
  std::string name;             ///< of its root, for reports
  std::vector<Member> members;  ///< in the order of the group
  double latency = 0;           ///< microseconds up to the root and down again, of the longest ways
  double rate = 0;              ///< GB/s of the tree at most, as in topo::Aggregation; 0: no limit
  std::uint32_t outstanding = 1;  ///< operations at a time; 0: any number
  bool sums_in_parts = false;     ///< as in topo::Aggregation
};

/// Ranks and links never change. One thread at a time may look up paths and trees.
class Fabric {
 public:
  virtual ~Fabric() = default;

  [[nodiscard]] virtual std::int32_t ranks() const = 0;
  [[nodiscard]] virtual std::span<const Link> links() const = 0;
  /// The links on a lane's path between two ranks, in order; none twice. Empty if both ranks share
  /// memory. kInvalidArgument names both ranks if nothing connects them.
  [[nodiscard]] virtual Result<std::vector<LinkId>> path(Rank from, Rank to, Lane lane) = 0;
  /// For a message between two different ranks; zero by default.
  [[nodiscard]] virtual MessageCosts costs(Rank /*from*/, Rank /*to*/) const { return {}; }
  /// A tree for each of these groups, which a schedule uses at the same time. kUnsupported if the
  /// network has none, or not enough of them; by default it adds nothing.
  [[nodiscard]] virtual Result<std::vector<NetworkTree>> trees(std::span<const ir::Group> groups);
};

/// Every rank has a link up to one non-blocking switch and a link down from it: the network of the
/// alpha-beta model.
class UniformSwitch final : public Fabric {
 public:
  struct Shape {
    std::int32_t ranks = 1;
    double bandwidth = 25;  ///< GB/s per rank, in each direction
    double latency = 5;     ///< microseconds between ranks: the model's alpha
    std::optional<topo::Aggregation> aggregation = {};  ///< set: the switch adds and copies
  };
  explicit UniformSwitch(const Shape& shape);

  [[nodiscard]] std::int32_t ranks() const override { return shape_.ranks; }
  [[nodiscard]] std::span<const Link> links() const override { return links_; }
  [[nodiscard]] Result<std::vector<LinkId>> path(Rank from, Rank to, Lane lane) override;
  [[nodiscard]] Result<std::vector<NetworkTree>> trees(std::span<const ir::Group> groups) override;

 private:
  Shape shape_;
  std::vector<Link> links_;  // rank 0 up, rank 0 down, rank 1 up ...
};

/// Nodes with equal numbers of ranks. Within a node, a non-blocking switch connects the ranks
/// (NVLink). Between nodes, each rank has its own network interface, and a second non-blocking
/// switch connects all. The ranks of a node have consecutive numbers. A group has its tree inside
/// its node if that switch adds and all members are there, and else between the nodes.
class TwoLevelSwitch final : public Fabric {
 public:
  struct Shape {
    std::int32_t nodes = 1;
    std::int32_t ranks_per_node = 1;
    double inner_bandwidth = 450;  ///< GB/s per rank within its node, in each direction
    double inner_latency = 1;      ///< microseconds between ranks of a node
    double outer_bandwidth = 50;   ///< GB/s per network interface, in each direction
    double outer_latency = 5;      ///< microseconds between ranks of different nodes
    std::optional<topo::Aggregation> inner_aggregation = {};  ///< set: the nodes' switches add
    std::optional<topo::Aggregation> outer_aggregation = {};  ///< the one between them does
  };
  explicit TwoLevelSwitch(const Shape& shape);

  [[nodiscard]] std::int32_t ranks() const override { return shape_.nodes * shape_.ranks_per_node; }
  [[nodiscard]] std::span<const Link> links() const override { return links_; }
  [[nodiscard]] Result<std::vector<LinkId>> path(Rank from, Rank to, Lane lane) override;
  [[nodiscard]] Result<std::vector<NetworkTree>> trees(std::span<const ir::Group> groups) override;

 private:
  [[nodiscard]] std::int32_t node_of(Rank rank) const { return rank / shape_.ranks_per_node; }

  Shape shape_;
  std::vector<Link> links_;  // per rank: up, down, to the network, from the network
};

}  // namespace tutti::sim
