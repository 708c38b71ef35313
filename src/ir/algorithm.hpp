// An algorithm is a name and three pure functions; algorithms::all() lists them. The functions are
// values, so that an algorithm can be made of others.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "src/ir/request.hpp"
#include "src/ir/schedule.hpp"
#include "tutti/error.hpp"

namespace tutti::ir {

/// Published cost of one request, in the words of the papers: communication rounds (the longest
/// chain of dependent messages; where the paper lets a rank send and receive one message at a time,
/// the steps that takes), and the most bytes any rank sends, in units of S / `unit` where S is the
/// size convention of the collective (all_reduce, broadcast, reduce: the vector; all_gather: total
/// output; reduce_scatter, all_to_all, scatter, gather: total input or output of the root).
struct Cost {
  std::uint32_t rounds = 0;
  std::uint64_t sent_numerator = 0;  ///< most bytes sent by a rank = S * numerator / denominator
  std::uint64_t sent_denominator = 1;
  friend bool operator==(const Cost&, const Cost&) = default;
};

/// A pure function of a request. Made of one function of an overloaded name too, which
/// std::function cannot choose.
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
  /// Whether generate accepts this request.
  OfRequest<bool> supports;
  OfRequest<Result<Schedule>> generate;
  /// Exact cost for supported requests; the tests hold the generated schedule to it. Where nodes of
  /// the layout differ in size, a bound from above.
  OfRequest<Cost> cost;
  /// True when results differ from an exact reduction by the codec's loss.
  bool lossy = false;
  /// True when it is there for what it guarantees and not for its time: it runs only where it is
  /// asked for by name, neither model nor measurement proposes it, and nothing else runs in its
  /// place where it has no room.
  bool only_by_name = false;
};

}  // namespace tutti::ir
