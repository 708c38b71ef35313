// Which algorithm a call uses, and why.
//
// The choice depends on nothing but what every rank of the communicator shares: the request, the
// size, the placement and settings agreed at creation. Otherwise ranks disagree, and hang.
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
  /// Who chose, the strongest last.
  enum class By : std::uint8_t {
    kRules,    ///< of thumb: src/cost/rules.hpp
    kModel,    ///< src/cost/proposals.hpp, with a calibration
    kTable,    ///< what `tutti tune` measured
    kSetting,  ///< TUTTI_ALGO
    kCaller,   ///< Tuner::ask_for
  };
  By by = By::kRules;
  const ir::Algorithm* algorithm = nullptr;
  const ir::Algorithm* mapped = nullptr;  ///< instead, where every rank maps all buffers
  /// Whether the kernel is to read large inputs where it can; none: nobody said.
  std::optional<bool> kernel_reads;
  std::string reason;  ///< one sentence for logs and `tutti explain`
  /// Between hosts: the next best ones, for where `algorithm` cannot run: there is no room for the
  /// slots that it needs.
  std::vector<const ir::Algorithm*> instead;
  /// Others that give the same results bit for bit, and may be faster on these machines.
  std::vector<const ir::Algorithm*> others;
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
  MeasuredTable table = {};      ///< of other arrangements too
  Arrangement arrangement = {};  ///< of the ranks of this communicator
  /// What proposals between hosts are predicted with; none: the rules alone.
  std::optional<Calibration> calibration = {};
  std::size_t staging_bytes = std::size_t{1} << 20U;  ///< TUTTI_STAGING_BYTES, for predictions
};

class Tuner {
 public:
  /// `algorithms` must outlive the tuner. kInvalidArgument when policy.forced names what is neither
  /// among them nor in policy.files.
  static Result<Tuner> create(const std::vector<ir::Algorithm>& algorithms, TunerPolicy policy);

  /// What the caller asked for, else what TUTTI_ALGO says; else, unless results are to be
  /// deterministic, what the table says, or between hosts what the model finds clearly faster than
  /// by_rules(); else that. One thread at a time: the model's answers are remembered.
  [[nodiscard]] Result<Choice> choose(const Situation& situation,
                                      const lower::Placement& placement) const;
  /// As where nothing was asked for or measured; TUTTI_ALGO may exclude what is not to be used.
  [[nodiscard]] Result<Choice> by_rules(const Situation& situation,
                                        const lower::Placement& placement) const;
  /// From now on `algorithm` runs what it can of the collective; "": as if nobody had asked.
  /// kInvalidArgument when there is no such algorithm, kUnsupported when it can do nothing of
  /// `request`.
  Status ask_for(const ir::Request& request, std::string_view algorithm,
                 std::optional<bool> kernel_reads);
  /// What choose() passes over: algorithms that the table names for these ranks and that do not
  /// exist, lose precision, or cannot do it with this layout of hosts. "name (collective)", sorted.
  [[nodiscard]] std::vector<std::string> unusable_in_table(const ir::Layout& layout) const;
  /// Why TUTTI_ALGO does not settle such calls though it names their collective; ok: it settles
  /// them, or names no algorithm for that collective. Files may be for others.
  [[nodiscard]] Status check_setting(const ir::Request& request) const;
  /// Of an all-gather that no program makes, whatever the policy; nullptr: there is none. Straight
  /// to each rank, it needs one slot however many ranks there are.
  [[nodiscard]] const ir::Algorithm* for_exchange() const { return find("direct"); }

 private:
  struct Asked {
    std::string collective;  ///< normalised; "" for all
    const ir::Algorithm* algorithm = nullptr;
    bool of_file = false;
    [[nodiscard]] bool applies_to(Collective wanted) const;
  };

  /// Of the caller.
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
  bool deterministic_ = false;
  std::vector<Asked> forced_, excluded_;
  std::map<Collective, Wish> wishes_;
  MeasuredTable table_;
  Arrangement arrangement_;
  mutable std::optional<Proposals> proposals_;
};

}  // namespace tutti
