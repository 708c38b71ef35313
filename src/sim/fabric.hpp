// What joins the ranks of a simulated job: links, and the path of each lane between two ranks over
// them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/sim/fair_shares.hpp"
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

/// What a message costs besides the time on its links. Value.
struct MessageCosts {
  double send_us = 0;           ///< work of its sender
  double send_ps_per_byte = 0;  ///< likewise
  double receive_us = 0;        ///< work of its receiver
  double receive_ps_per_byte = 0;
  double latency_us = 0;  ///< besides that of the links; keeps nobody busy
};

/// Ranks and links never change. Paths may be looked up by one thread at a time.
class Fabric {
 public:
  virtual ~Fabric() = default;

  [[nodiscard]] virtual std::int32_t ranks() const = 0;
  [[nodiscard]] virtual std::span<const Link> links() const = 0;
  /// The links that a lane from one rank to another one takes, in order; none twice. Empty where
  /// both live in the same memory. kInvalidArgument names both where nothing joins them.
  [[nodiscard]] virtual Result<std::vector<LinkId>> path(Rank from, Rank to, Lane lane) = 0;
  /// For a message between two different ranks; nothing by default.
  [[nodiscard]] virtual MessageCosts costs(Rank /*from*/, Rank /*to*/) const { return {}; }
};

/// Every rank has a link up to one switch that never blocks, and one down from it: the network of
/// the alpha-beta model.
class UniformSwitch final : public Fabric {
 public:
  struct Shape {
    std::int32_t ranks = 1;
    double bandwidth = 25;  ///< GB/s of a rank, in each direction
    double latency = 5;     ///< microseconds from rank to rank: the model's alpha
  };
  explicit UniformSwitch(const Shape& shape);

  [[nodiscard]] std::int32_t ranks() const override { return ranks_; }
  [[nodiscard]] std::span<const Link> links() const override { return links_; }
  [[nodiscard]] Result<std::vector<LinkId>> path(Rank from, Rank to, Lane lane) override;

 private:
  std::int32_t ranks_;
  std::vector<Link> links_;  // up and down of rank 0, up and down of rank 1 ...
};

/// Nodes of as many ranks each. Within a node, a switch that never blocks joins the ranks (NVLink);
/// between nodes, each rank has a network interface of its own, and all meet at a second such
/// switch. Ranks of a node follow each other.
class TwoLevelSwitch final : public Fabric {
 public:
  struct Shape {
    std::int32_t nodes = 1;
    std::int32_t ranks_per_node = 1;
    double inner_bandwidth = 450;  ///< GB/s of a rank within its node, in each direction
    double inner_latency = 1;      ///< microseconds from rank to rank
    double outer_bandwidth = 50;   ///< GB/s of one network interface, in each direction
    double outer_latency = 5;      ///< microseconds from rank to rank
  };
  explicit TwoLevelSwitch(const Shape& shape);

  [[nodiscard]] std::int32_t ranks() const override { return nodes_ * ranks_per_node_; }
  [[nodiscard]] std::span<const Link> links() const override { return links_; }
  [[nodiscard]] Result<std::vector<LinkId>> path(Rank from, Rank to, Lane lane) override;

 private:
  std::int32_t nodes_;
  std::int32_t ranks_per_node_;
  std::vector<Link> links_;  // per rank: up, down, to the network, from the network
};

}  // namespace tutti::sim
