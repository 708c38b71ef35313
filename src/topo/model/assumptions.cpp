#include "src/topo/model/assumptions.hpp"

#include <fmt/format.h>

namespace tutti::topo {
namespace {

constexpr std::size_t kMostReasons = 200, kMostSubjects = 8;

}  // namespace

void Assumptions::add_of(std::string_view subject, std::string_view reason) {
  Assumption* const entry = find(reason);
  if (entry == nullptr) return;
  ++entry->of;
  if (entry->subjects.size() < kMostSubjects) entry->subjects.emplace_back(subject);
}

std::vector<std::string> Assumptions::sentences() const {
  std::vector<std::string> sentences;
  for (const Assumption& assumption : all_) sentences.push_back(sentence(assumption));
  if (more_ > 0) sentences.push_back(fmt::format("{} more assumptions are not shown", more_));
  return sentences;
}

Assumptions::Assumption* Assumptions::find(std::string_view reason) {
  const auto known = known_reasons_.find(reason);
  if (known != known_reasons_.end()) return &all_[known->second];
  if (all_.size() >= kMostReasons) {
    ++more_;
    return nullptr;
  }
  known_reasons_.emplace(reason, all_.size());
  return &all_.emplace_back(Assumption{std::string(reason), {}, 0});
}

std::string Assumptions::sentence(const Assumption& assumption) {
  if (assumption.of == 0) return assumption.reason;
  std::string subjects;
  for (const std::string& subject : assumption.subjects)
    subjects += (subjects.empty() ? "" : ", ") + subject;
  const std::size_t more = assumption.of - assumption.subjects.size();
  return more == 0 ? fmt::format("{}: {}", subjects, assumption.reason)
                   : fmt::format("{} and {} more: {}", subjects, more, assumption.reason);
}

}  // namespace tutti::topo
