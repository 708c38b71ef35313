// Lists what had to be assumed about a topology: one sentence for each reason, with its subjects.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::topo {

/// In the order in which reasons came first. Of more than 200 the rest are counted only.
class Assumptions {
 public:
  /// A sentence, once.
  void add(std::string_view sentence) { find(sentence); }
  /// Of several subjects together: "eth0, eth1 and 3 more: REASON".
  void add_of(std::string_view subject, std::string_view reason);

  [[nodiscard]] std::vector<std::string> sentences() const;

 private:
  struct Assumption {
    std::string reason;
    std::vector<std::string> subjects;  // the first few
    std::size_t of = 0;                 // how many subjects
  };
  Assumption* find(std::string_view reason);  // null once there are too many
  static std::string sentence(const Assumption& assumption);

  std::vector<Assumption> all_;
  std::map<std::string, std::size_t, std::less<>> known_reasons_;  // places in all_
  std::size_t more_ = 0;
};

}  // namespace tutti::topo
