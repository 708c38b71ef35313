// Chooses the algorithm of a call, and says why.
//
// The choice depends only on what every rank of the communicator shares: the request, the size, the
// placement and settings agreed at creation. Otherwise ranks would disagree and hang.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/cost/calibration.hpp"
#include "src/cost/measured_table.hpp"
#include "src/cost/proposals.hpp"
#include "src/cost/rules.hpp"
#include "src/ir/algorithm.hpp"
#include "src/lower/program.hpp"
#include "tutti/error.hpp"

namespace tutti {

struct Choice {
  /// Who chose; later ones override earlier ones.
  enum class By : std::uint8_t {
    kRules,    ///< rules of thumb: src/cost/rules.hpp
    kModel,    ///< src/cost/proposals.hpp, with a calibration
    kTable,    ///< what `tutti tune` measured
    kSetting,  ///< TUTTI_ALGO
    kCaller,   ///< Tuner::ask_for
  };
  By by = By::kRules;
  const ir::Algorithm* algorithm = nullptr;
  const ir::Algorithm* mapped = nullptr;  ///< replaces `algorithm` if every rank maps all buffers
  /// Whether the kernel shall read large inputs where it can; empty if nobody asked.
  std::optional<bool> kernel_reads;
  std::string reason;  ///< one sentence for logs and `tutti explain`
  /// Between hosts: the next best algorithms, for when `algorithm` cannot run because its slots
  /// have no room.
  std::vector<const ir::Algorithm*> instead;
  /// Others with bit-for-bit equal results that may be faster on these machines.
  std::vector<const ir::Algorithm*> others;
};

/// What ranks agree on when a communicator is created. Value.
struct TunerPolicy {
  /// TUTTI_ALGO / NCCL_ALGO: "", or an algorithm's name (also NCCL's Ring and Tree), or
  /// "collective:name;collective:name,name". The first name that supports a collective applies. A
  /// list after ^ excludes algorithms. Instead of a list, file:PATH (up to the next ';') names an
  /// algorithm in a file; it applies to the calls that the file is for.
  std::string forced;
  bool deterministic = false;
  /// The algorithms of files_of(forced), by path. They must outlive the tuner.
  std::map<std::string, const ir::Algorithm*, std::less<>> files = {};
  /// Makes what "forest" names, the trees of these machines, when that is asked for. It must
  /// outlive the tuner. Empty: there is none.
  std::function<const ir::Algorithm*()> forest = {};
  MeasuredTable table = {};      ///< also contains other arrangements
  Arrangement arrangement = {};  ///< of this communicator's ranks
  /// For predictions between hosts. Empty: only the rules are used.
  std::optional<Calibration> calibration = {};
  std::size_t staging_bytes = std::size_t{1} << 20U;  ///< TUTTI_STAGING_BYTES, for predictions
};

class Tuner {
 public:
  /// `algorithms` must outlive the tuner. kInvalidArgument when policy.forced names an algorithm
  /// that is neither among them nor in policy.files.
  static Result<Tuner> create(const std::vector<ir::Algorithm>& algorithms, TunerPolicy policy);

  /// The caller's choice, else TUTTI_ALGO's. Else, unless results must be deterministic, the
  /// table's, or between hosts an algorithm that the model finds clearly faster than by_rules().
  /// Else by_rules(). One thread at a time, because it remembers the model's answers.
  [[nodiscard]] Result<Choice> choose(const Situation& situation,
                                      const lower::Placement& placement) const;
  /// The choice without requests and measurements. TUTTI_ALGO may still exclude algorithms.
  [[nodiscard]] Result<Choice> by_rules(const Situation& situation,
                                        const lower::Placement& placement) const;
  [[nodiscard]] bool is_deterministic() const { return deterministic_; }
  /// The choice for compressed calls, and what else may run them (Choice::instead). Their programs
  /// differ from plain ones, so nothing that was measured counts.
  [[nodiscard]] Result<Choice> choose_compressed(const Situation& situation,
                                                 const lower::Placement& placement) const;
  /// From now on `algorithm` runs whatever it can of the collective; "" cancels this.
  /// kInvalidArgument when there is no such algorithm, kUnsupported when it cannot run `request` in
  /// any form.
  Status ask_for(const ir::Request& request, std::string_view algorithm,
                 std::optional<bool> kernel_reads);
  /// Algorithms that the table names for these ranks and that choose() ignores: they do not exist,
  /// lose precision, or do not support this layout of hosts. "name (collective)", sorted.
  [[nodiscard]] std::vector<std::string> unusable_in_table(const ir::Layout& layout) const;
  /// Why TUTTI_ALGO does not decide such calls although it names their collective. Ok if it decides
  /// them, or names no algorithm for that collective. Files may be for other calls.
  [[nodiscard]] Status check_setting(const ir::Request& request) const;
  /// The algorithm for all-gathers that Tutti makes itself, whatever the policy; nullptr if there
  /// is none. It sends directly to each rank, so it needs one slot for any number of ranks.
  [[nodiscard]] const ir::Algorithm* for_exchange() const { return find("direct"); }

 private:
  struct Asked {
    std::string collective;  ///< normalised; "" for all
    const ir::Algorithm* algorithm = nullptr;
    bool of_file = false;
    [[nodiscard]] bool applies_to(Collective wanted) const;
  };

  /// The caller's choice.
  struct Wish {
    const ir::Algorithm* algorithm = nullptr;
    std::optional<bool> kernel_reads;
  };

  explicit Tuner(const std::vector<ir::Algorithm>& algorithms) : algorithms_(&algorithms) {}
  Status add_setting(std::string_view names, const std::string& collective);
  Result<const ir::Algorithm*> known_algorithm(std::string_view who, std::string_view name) const;
  [[nodiscard]] const ir::Algorithm* find(std::string_view name) const;
  [[nodiscard]] const ir::Algorithm* forced_for(const Situation& situation) const;
  [[nodiscard]] std::optional<Choice> asked_choice(const Situation& situation) const;
  [[nodiscard]] std::optional<Choice> measured_choice(const Situation& situation,
                                                      const lower::Placement& placement) const;
  [[nodiscard]] std::optional<Choice> proposed_choice(const Situation& situation,
                                                      const lower::Placement& placement,
                                                      const Choice& ruled) const;
  [[nodiscard]] const ir::Algorithm* usable_by_table(std::string_view name,
                                                     const ir::Request& request) const;
  [[nodiscard]] std::vector<const ir::Algorithm*> usable(const std::vector<std::string_view>& names,
                                                         const ir::Request& request) const;
  [[nodiscard]] std::vector<const ir::Algorithm*> others_than(
      const ir::Algorithm* guess, const Situation& situation, bool one_host,
      std::vector<const ir::Algorithm*> candidates) const;
  [[nodiscard]] bool is_excluded(const ir::Algorithm* algorithm, Collective collective) const;

  const std::vector<ir::Algorithm>* algorithms_;
  std::function<const ir::Algorithm*()> forest_;
  bool deterministic_ = false;
  std::vector<Asked> forced_, excluded_;
  std::map<Collective, Wish> wishes_;
  MeasuredTable table_;
  Arrangement arrangement_;
  mutable std::optional<Proposals> proposals_;
};

}  // namespace tutti
