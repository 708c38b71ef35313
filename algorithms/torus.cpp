// Grids: a reduce_scatter along one dimension after the other, and all_gathers back.
//
// Words: a line is the ranks that differ in one dimension only. A copy is one complete run on a
// share of the data; each copy takes the dimensions in its own order. Extents are p1 ... pk, with n
// ranks.
//
//   collective       rounds            bytes sent by the busiest rank
//   all_reduce       2 sum (pi - 1)    2 S (n-1)/n
//   all_gather       sum (pi - 1)      S (n-1)/n
//   reduce_scatter   sum (pi - 1)      S (n-1)/n
//
// (with rings on the lines). Along the first dimension S (p1-1)/p1 bytes move, along the next one
// p1 times fewer, and so on.
//
// Wins: blue_connect if each dimension is slower than the one before (NVLink, rails of a rack,
// spine). Most bytes take the fastest links, and rounds are far fewer than a ring's 2 (n-1). On a
// torus it would leave all dimensions but one idle. There the copies of torus keep both links of
// each dimension busy at once.
//
// Sources: Cho et al., "BlueConnect" (MLSys 2019); Mikami et al., 2D-torus all-reduce (arXiv
// 1811.05233); copies that start at different dimensions and directions: Jain, Sabharwal, "Optimal
// bucket algorithms for large MPI collectives on torus interconnects" (ICS 2010).
#include "algorithms/torus.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "algorithms/member.hpp"
#include "src/base/result.hpp"
#include "src/ir/embed.hpp"

namespace tutti::algorithms {
namespace torus_parts {

using ir::Part;
using ir::Region;
using ir::Request;
using ir::Space;

/// A course of one share of the data: the dimensions in order, and which way lines are walked.
struct Copy {
  std::vector<std::size_t> order;
  bool mirrored = false;
};

/// A grid whose cells all have a rank. Dimensions of extent 1 are none.
class Grid {
 public:
  explicit Grid(const ir::Layout& layout) : extents_(layout.extents) {
    std::erase(extents_, 1);
    rank_at_.resize(layout.cells.size());
    for (std::size_t rank = 0; rank < layout.cells.size(); ++rank)
      rank_at_[static_cast<std::size_t>(layout.cells[rank])] = static_cast<Rank>(rank);
    std::uint32_t below = 1;
    for (const std::int32_t extent : extents_) {
      stride_.push_back(below);
      below *= static_cast<std::uint32_t>(extent);
    }
  }

  [[nodiscard]] std::uint32_t cells() const { return static_cast<std::uint32_t>(rank_at_.size()); }
  [[nodiscard]] std::size_t dimensions() const { return extents_.size(); }
  [[nodiscard]] std::uint32_t extent(std::size_t dimension) const {
    return static_cast<std::uint32_t>(extents_[dimension]);
  }
  [[nodiscard]] Rank rank_at(std::uint32_t cell) const { return rank_at_[cell]; }
  [[nodiscard]] std::uint32_t coordinate(std::uint32_t cell, std::size_t dimension) const {
    return cell / stride_[dimension] % extent(dimension);
  }
  [[nodiscard]] std::uint32_t moved(std::uint32_t cell, std::size_t dimension,
                                    std::uint32_t coordinate) const {
    return cell + (coordinate - this->coordinate(cell, dimension)) * stride_[dimension];
  }
  /// The cells of the line along `dimension` through `cell`.
  [[nodiscard]] std::vector<std::uint32_t> line(std::uint32_t cell, std::size_t dimension,
                                                bool mirrored) const {
    std::vector<std::uint32_t> cells;
    cells.reserve(extent(dimension));
    for (std::uint32_t i = 0; i < extent(dimension); ++i)
      cells.push_back(moved(cell, dimension, mirrored ? extent(dimension) - 1 - i : i));
    return cells;
  }

 private:
  std::vector<std::int32_t> extents_;
  std::vector<std::uint32_t> stride_;
  std::vector<Rank> rank_at_;  // by cell
};

/// What the lines of a copy do, one dimension after the other.
enum class Way : std::uint8_t { kReduceScatter, kAllGather };

class Writer {
 public:
  Writer(const Request& request, std::string_view name, const ir::Algorithm& line,
         std::vector<Copy> copies)
      : request_(request),
        line_(line),
        copies_(std::move(copies)),
        grid_(request.layout),
        whole_(request, name,
               number_of_copies() *
                   (request.collective == Collective::kAllReduce ? grid_.cells() : 1)) {}

  Result<ir::Schedule> run() && {
    const std::size_t dimensions = grid_.dimensions();
    if (request_.collective == Collective::kReduceScatter) hold_sums();
    if (request_.collective != Collective::kAllGather)
      for (std::size_t i = 0; i < dimensions; ++i) TUTTI_TRY(step(i, Way::kReduceScatter));
    if (request_.collective != Collective::kReduceScatter)
      for (std::size_t i = dimensions; i-- > 0;) TUTTI_TRY(step(i, Way::kAllGather));
    return std::move(whole_).finish();
  }

 private:
  [[nodiscard]] std::uint32_t number_of_copies() const {
    return static_cast<std::uint32_t>(copies_.size());
  }
  [[nodiscard]] bool is(Collective collective) const { return request_.collective == collective; }

  /// The chunk of a copy that ends at, or comes from, the rank in `cell`. Of an all_reduce any
  /// numbers will do: these make what moves along a dimension one run.
  [[nodiscard]] std::uint32_t chunk(std::size_t copy, std::uint32_t cell) const {
    const auto index = static_cast<std::uint32_t>(copy);
    if (!is(Collective::kAllReduce))
      return number_of_copies() * static_cast<std::uint32_t>(grid_.rank_at(cell)) + index;
    std::uint32_t number = 0;
    for (const std::size_t dimension : copies_[copy].order)
      number = number * grid_.extent(dimension) + grid_.coordinate(cell, dimension);
    return index * grid_.cells() + number;
  }

  /// The chunks of the cells that agree with `cell` in the first `fixed` dimensions of the copy's
  /// order: what concerns its rank once it has scattered along those.
  [[nodiscard]] std::vector<std::uint32_t> share(std::size_t copy, std::uint32_t cell,
                                                 std::size_t fixed) const {
    const std::vector<std::size_t>& order = copies_[copy].order;
    std::vector<std::uint32_t> cells = {cell};
    for (std::size_t i = fixed; i < order.size(); ++i) {
      std::vector<std::uint32_t> wider;
      for (const std::uint32_t each : cells)
        for (std::uint32_t x = 0; x < grid_.extent(order[i]); ++x)
          wider.push_back(grid_.moved(each, order[i], x));
      cells = std::move(wider);
    }
    for (std::uint32_t& each : cells) each = chunk(copy, each);
    std::ranges::sort(cells);
    return cells;
  }

  /// Only an all_reduce has room in its output for sums that are not complete.
  void hold_sums() {
    sums_.resize(copies_.size());
    for (std::size_t copy = 0; copy < copies_.size(); ++copy) {
      for (std::uint32_t cell = 0; cell < grid_.cells(); ++cell) {
        const auto chunks = share(copy, cell, 1);
        auto& held = sums_[copy].emplace_back();
        auto rank = whole_.rank(grid_.rank_at(cell));
        for (const std::uint32_t each : chunks) held[each] = rank.scratch(in(each)).first;
      }
    }
  }

  // --- where a rank has the chunks of a share
  // -----------------------------------------------------

  [[nodiscard]] Region inputs(const std::vector<std::uint32_t>& chunks) const {
    return ir::region_of(Space::kInput, chunks);
  }
  [[nodiscard]] Region outputs(const std::vector<std::uint32_t>& chunks) const {
    return ir::region_of(Space::kOutput, chunks);
  }
  [[nodiscard]] Region sums(std::size_t copy, std::uint32_t cell,
                            std::vector<std::uint32_t> chunks) const {
    if (is(Collective::kAllReduce)) return outputs(chunks);
    for (std::uint32_t& each : chunks) each = sums_[copy][cell].at(each);
    return ir::region_of(Space::kScratch, chunks);
  }
  /// The copy's chunk of the one block that is the rank's own.
  [[nodiscard]] static Region own_block(Space space, std::size_t copy) {
    return {{space, static_cast<std::uint32_t>(copy), 1, 1}};
  }

  /// All copies along the dimension that comes at that position of their orders.
  Status step(std::size_t position, Way way) {
    for (std::size_t copy = 0; copy < copies_.size(); ++copy) {
      const std::size_t dimension = copies_[copy].order[position];
      for (std::uint32_t cell = 0; cell < grid_.cells(); ++cell) {
        if (grid_.coordinate(cell, dimension) != 0) continue;
        const auto cells = grid_.line(cell, dimension, copies_[copy].mirrored);
        TUTTI_TRY(way == Way::kReduceScatter ? scatter(copy, position, cells)
                                             : gather(copy, position, cells));
      }
    }
    return ok_status();
  }

  Status run_line(Collective collective, bool in_place, const std::vector<std::uint32_t>& cells,
                  Part part) {
    TUTTI_ASSIGN(const ir::Schedule leaf,
                 line_.generate({.collective = collective,
                                 .ranks = static_cast<std::int32_t>(cells.size()),
                                 .in_place = in_place}));
    TUTTI_CHECK(leaf.chunks_per_block == 1, "{} has {} chunks per block on a line", line_.name,
                leaf.chunks_per_block);
    for (const std::uint32_t cell : cells) part.members.push_back(grid_.rank_at(cell));
    return ir::embed(leaf, part, whole_);
  }

  Status scatter(std::size_t copy, std::size_t position, const std::vector<std::uint32_t>& cells) {
    const bool first = position == 0;
    const bool ends = is(Collective::kReduceScatter) && position + 1 == grid_.dimensions();
    const auto at = [&](Rank m) { return cells[static_cast<std::size_t>(m)]; };
    const auto of = [&](std::uint32_t cell) { return share(copy, cell, position + 1); };
    Part part;
    part.input = [&](Rank m, std::uint32_t c) {
      return first ? inputs(of(cells[c])) : sums(copy, at(m), of(cells[c]));
    };
    part.output = [&](Rank m, std::uint32_t) {
      return ends ? own_block(Space::kOutput, copy) : sums(copy, at(m), of(at(m)));
    };
    const bool from_input_to_output = first && is(Collective::kAllReduce) && request_.in_place;
    return run_line(Collective::kReduceScatter, from_input_to_output || (!first && !ends), cells,
                    std::move(part));
  }

  Status gather(std::size_t copy, std::size_t position, const std::vector<std::uint32_t>& cells) {
    const bool begins = is(Collective::kAllGather) && position + 1 == grid_.dimensions();
    const auto of = [&](std::uint32_t cell) { return share(copy, cell, position + 1); };
    Part part;
    part.input = [&](Rank m, std::uint32_t) {
      return begins ? own_block(Space::kInput, copy)
                    : outputs(of(cells[static_cast<std::size_t>(m)]));
    };
    part.output = [&](Rank, std::uint32_t c) { return outputs(of(cells[c])); };
    return run_line(Collective::kAllGather, begins ? request_.in_place : true, cells,
                    std::move(part));
  }

  const Request& request_;
  const ir::Algorithm& line_;
  std::vector<Copy> copies_;
  Grid grid_;
  ir::Builder whole_;
  /// Of a reduce_scatter, by copy and cell: the scratch of each chunk.
  std::vector<std::vector<std::map<std::uint32_t, std::uint32_t>>> sums_;
};

bool supports(const Request& request) {
  const bool known = request.collective == Collective::kAllReduce ||
                     request.collective == Collective::kAllGather ||
                     request.collective == Collective::kReduceScatter;
  if (!known || !well_formed(request) || request.layout.empty()) return false;
  if (!ir::check(request.layout, request.ranks) || !request.layout.full()) return false;
  return std::ranges::count_if(request.layout.extents, [](auto extent) { return extent > 1; }) > 1;
}

using CopiesOf = std::vector<Copy> (*)(std::size_t dimensions);

std::vector<Copy> nearest_first(std::size_t dimensions) {
  Copy copy{std::vector<std::size_t>(dimensions), false};
  std::iota(copy.order.begin(), copy.order.end(), std::size_t{0});
  return {copy};
}

std::vector<Copy> rotated(std::size_t dimensions) {
  std::vector<Copy> copies;
  for (const bool mirrored : {false, true}) {
    for (std::size_t first = 0; first < dimensions; ++first) {
      Copy copy = nearest_first(dimensions).front();
      std::ranges::rotate(copy.order, copy.order.begin() + static_cast<std::ptrdiff_t>(first));
      copy.mirrored = mirrored;
      copies.push_back(std::move(copy));
    }
  }
  return copies;
}

ir::Algorithm on_grids(std::string_view name, std::string_view summary, const ir::Algorithm& line,
                       CopiesOf copies_of) {
  return {.name = name,
          .summary = summary,
          .supports = [](const Request& request) { return supports(request); },
          .generate = [=](const Request& request) -> Result<ir::Schedule> {
            if (!supports(request)) return unsupported(name, request);
            return Writer(request, name, line, copies_of(Grid(request.layout).dimensions())).run();
          }};
}

}  // namespace torus_parts

ir::Algorithm blue_connect(std::string_view name, std::string_view summary,
                           const ir::Algorithm& line) {
  using namespace torus_parts;
  return on_grids(name, summary, line, nearest_first);
}

ir::Algorithm torus(std::string_view name, std::string_view summary, const ir::Algorithm& line) {
  using namespace torus_parts;
  return on_grids(name, summary, line, rotated);
}

}  // namespace tutti::algorithms
