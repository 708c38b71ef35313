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
  /// True when results lack the precision that a format loses.
  bool lossy = false;
  /// True for an algorithm that exists for its guarantee and not for its speed. It runs only when
  /// asked for by name: neither model nor measurement proposes it. If it has no room, the call
  /// fails and no other algorithm replaces it.
  bool only_by_name = false;
};

}  // namespace tutti::ir
