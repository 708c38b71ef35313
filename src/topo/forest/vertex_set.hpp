// A set of vertices, as bits. Fast, because tight cuts are looked up millions of times.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/topo/forest/network.hpp"

namespace tutti::topo::forest {

/// Value. Holds vertices below the number it was made for.
class VertexSet {
 public:
  explicit VertexSet(std::size_t vertices) : words_((vertices + 63) / 64, 0) {}

  void insert(Vertex v) { words_[v / 64] |= bit(v); }
  [[nodiscard]] bool contains(Vertex v) const { return (words_[v / 64] & bit(v)) != 0; }
  [[nodiscard]] bool meets(const VertexSet& other) const {
    const std::size_t words = std::min(words_.size(), other.words_.size());
    for (std::size_t i = 0; i < words; ++i) {
      if ((words_[i] & other.words_[i]) != 0) return true;
    }
    return false;
  }

  friend bool operator==(const VertexSet&, const VertexSet&) = default;

 private:
  static std::uint64_t bit(Vertex v) { return std::uint64_t{1} << (v % 64); }
  std::vector<std::uint64_t> words_;
};

}  // namespace tutti::topo::forest
