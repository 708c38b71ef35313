// An algorithm is a name and three pure functions; algorithms::all() lists all of them. The
// functions are values, so one algorithm can be built from others.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "src/ir/request.hpp"
#include "src/ir/schedule.hpp"
#include "tutti/error.hpp"

namespace tutti::ir {

/// Published cost of one request. `rounds` counts communication rounds, as the papers do: the
/// longest chain of dependent messages. If the paper lets a rank send and receive only one message
/// at a time, it counts the steps that this takes. The other fields give the most bytes that any
/// rank sends, as a fraction of S, the size convention of the collective. S is the vector for
/// all_reduce, broadcast and reduce; the total output for all_gather; the total input for
/// reduce_scatter and all_to_all; the root's total input or output for scatter and gather.
struct Cost {
  std::uint32_t rounds = 0;
  std::uint64_t sent_numerator = 0;  ///< most bytes sent by any rank = S * numerator / denominator
  std::uint64_t sent_denominator = 1;
  friend bool operator==(const Cost&, const Cost&) = default;
};

/// A pure function of a request. Also constructible from an overloaded function name, which
/// std::function does not accept.
template <class Answer>
class OfRequest : public std::function<Answer(const Request&)> {
 public:
  using std::function<Answer(const Request&)>::function;
  OfRequest(Answer (*function)(const Request&))  // NOLINT(*-explicit-*)
      : std::function<Answer(const Request&)>(function) {}
};

struct Algorithm {
  std::string_view name;     ///< "ring", "double_binary_tree", ...
  std::string_view summary;  ///< one line for `tutti algo list`
  /// Whether generate() accepts this request.
  OfRequest<bool> supports;
  OfRequest<Result<Schedule>> generate;
  /// Exact cost for supported requests; tests hold the generated schedule to it. An upper bound if
  /// the nodes of the layout differ in size.
  OfRequest<Cost> cost;
  /// True when results lack the precision that a format loses.
  bool lossy = false;
  /// True for an algorithm that exists for its guarantee and not for its speed. It runs only when
  /// asked for by name: neither model nor measurement proposes it. If it has no room, the call
  /// fails and no other algorithm replaces it.
  bool only_by_name = false;
};

}  // namespace tutti::ir
