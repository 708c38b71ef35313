// Which algorithm a call uses, and why.
//
// The choice depends on nothing but what every rank of the communicator shares: the request, the
// size, the placement and settings agreed at creation. Otherwise ranks disagree, and hang.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "src/ir/algorithm.hpp"
#include "src/lower/program.hpp"
#include "tutti/error.hpp"

namespace tutti {

struct Choice {
  const ir::Algorithm* algorithm = nullptr;
  const ir::Algorithm* mapped = nullptr;  ///< instead, where every rank maps all buffers
  std::string reason;                     ///< one sentence for logs and `tutti explain`
  bool forced = false;                    ///< by TUTTI_ALGO
  /// Between hosts: the next best ones, for where there is no room for the slots that `algorithm`
  /// needs.
  std::vector<const ir::Algorithm*> instead;
  /// Others that give the same results bit for bit, and may be faster on these machines.
  std::vector<const ir::Algorithm*> others;
};

/// Facts about a call that the tuner looks at.
struct Situation {
  ir::Request request;
  std::size_t block_bytes = 0;    ///< count x element size
  std::size_t largest_input = 0;  ///< of any rank, in bytes
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;  ///< of reductions
};

/// Agreed between ranks at communicator creation. Value.
struct TunerPolicy {
  /// TUTTI_ALGO / NCCL_ALGO: "" or an algorithm's name (NCCL's Ring and Tree are understood), or
  /// "collective:name;collective:name,name". The first that supports a collective applies.
  /// A list after ^ says what not to use. In place of a list of names, file:PATH (up to the next
  /// ';') is the algorithm in a file; it applies to the calls that the file is for.
  std::string forced;
  bool deterministic = false;
  /// The algorithms of files_of(forced), by path; they must outlive the tuner.
  std::map<std::string, const ir::Algorithm*, std::less<>> files = {};
};

inline constexpr std::size_t kMostFiles = 64;  ///< that one policy names
/// The paths that such a policy names, in order. kInvalidArgument when it cannot be understood.
Result<std::vector<std::string>> files_of(std::string_view forced);

class Tuner {
 public:
  /// `algorithms` must outlive the tuner. kInvalidArgument when policy.forced names what is neither
  /// among them nor in policy.files.
  static Result<Tuner> create(const std::vector<ir::Algorithm>& algorithms, TunerPolicy policy);

  Result<Choice> choose(const Situation& situation, const lower::Placement& placement) const;
  /// Of an all-gather that no program makes, whatever the policy; nullptr: there is none. Straight
  /// to each rank, it needs one slot however many ranks there are.
  [[nodiscard]] const ir::Algorithm* for_exchange() const { return find("direct"); }

 private:
  struct Asked {
    std::string collective;  ///< normalised; "" for all
    const ir::Algorithm* algorithm = nullptr;
    [[nodiscard]] bool applies_to(Collective wanted) const;
  };

  explicit Tuner(const std::vector<ir::Algorithm>& algorithms) : algorithms_(&algorithms) {}
  Status ask_for(std::string_view names, const std::string& collective);
  Result<const ir::Algorithm*> known_algorithm(std::string_view name) const;
  [[nodiscard]] const ir::Algorithm* find(std::string_view name) const;
  [[nodiscard]] const ir::Algorithm* forced_for(const ir::Request& request) const;
  [[nodiscard]] std::vector<const ir::Algorithm*> usable(const std::vector<std::string_view>& names,
                                                         const ir::Request& request) const;
  [[nodiscard]] std::vector<const ir::Algorithm*> others_than(
      const ir::Algorithm* guess, const Situation& situation, bool one_host,
      std::vector<const ir::Algorithm*> candidates) const;
  [[nodiscard]] bool is_excluded(const ir::Algorithm* algorithm, Collective collective) const;

  const std::vector<ir::Algorithm>* algorithms_;
  bool deterministic_ = false;
  std::vector<Asked> forced_, excluded_;
};

}  // namespace tutti
