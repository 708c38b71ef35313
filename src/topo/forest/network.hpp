// A network as the forest sees it: who computes, what only forwards, and how much fits through.
//
// Words used throughout src/topo/forest:
//   compute node  has data, can copy it and add to it; one per rank, in the order of ranks
//   switch        forwards what it gets to one place; it can neither store, copy nor add
//   capacity      of a link, a whole number of units; how much a unit is, Network::unit says
//   cut           a set of vertices; its capacity is that of the links that leave it
//
// Capacities are whole numbers so that every answer is exact: the method needs to know whether two
// cuts are equally tight, and a rounded capacity would hide it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti::topo::forest {

using Vertex = std::uint32_t;  ///< position in Network::nodes

/// Plain data; check() says whether it makes sense.
struct Network {
  struct Node {
    std::string name;       ///< for messages
    bool computes = false;  ///< false: a switch
    friend bool operator==(const Node&, const Node&) = default;
  };
  /// One direction. Several links between the same nodes add up.
  struct Link {
    Vertex from = 0;
    Vertex to = 0;
    std::int64_t capacity = 0;  ///< in units, at least 0; a link of 0 is one that has failed
    friend bool operator==(const Link&, const Link&) = default;
  };

  std::vector<Node> nodes;
  std::vector<Link> links;
  double unit = 1;  ///< GB/s of one unit of capacity

  /// The vertex of each rank, ascending.
  [[nodiscard]] std::vector<Vertex> compute_nodes() const;

  friend bool operator==(const Network&, const Network&) = default;
};

/// Limits. A product of a number of ranks and a sum of capacities stays below 2^56, which is why
/// nothing in this folder can overflow.
inline constexpr std::size_t kMostVertices = 4096;
inline constexpr std::size_t kMostNetworkLinks = 1U << 20U;
inline constexpr std::int64_t kMostTotalCapacity = std::int64_t{1} << 44U;

/// kInvalidArgument names what is wrong: no compute node, a link that joins nodes that do not exist
/// or a node to itself, a negative capacity, more than the limits above, or a compute node that
/// another one cannot reach.
Status check(const Network& network);

/// kInvalidArgument names a switch into which another capacity leads than out of it. A switch
/// cannot copy, so what exceeds the smaller of both is of no use, and which links to use less is a
/// choice that the caller has to make: balanced() is the plain one.
Status check_balance(const Network& network);

/// `network` if all its switches are balanced. Otherwise a copy in which each link at a switch has
/// the capacity of the weaker of its two directions. Expects a network that passed check(); the
/// result need not pass it.
Network balanced(const Network& network);

}  // namespace tutti::topo::forest
