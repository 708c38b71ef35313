#include "training/pass_sums.hpp"

#include <bit>
#include <utility>

#include "training/outcome.hpp"

namespace tutti::training {
namespace {

/// into = first + into, in this order.
void add_before(std::span<const float> first, std::span<float> into) {
  for (std::size_t i = 0; i < into.size(); ++i) into[i] = first[i] + into[i];
}

}  // namespace

Result<PassSums> PassSums::create(const FlatLayout& layout, int levels, bool is_tree,
                                  const Comm& comm) {
  PassSums sums;
  sums.is_tree_ = is_tree;
  for (GroupId group = 0; group < layout.groups().size(); ++group) {
    sums.begins_.push_back(sums.elements_);
    sums.counts_.push_back(layout.shard_elements(group));
    sums.elements_ += sums.counts_.back();
  }
  TRAINING_ASSIGN(sums.memory_, Slab::allocate(comm, static_cast<std::size_t>(levels) *
                                                         sums.elements_ * sizeof(float)));
  return sums;
}

std::span<float> PassSums::level(GroupId group, int number) const {
  return as_floats(memory_.data())
      .subspan(static_cast<std::size_t>(number) * elements_ + begins_[group], counts_[group]);
}

void PassSums::add(GroupId group, int pass, DataType type, std::span<const std::byte> came) {
  if (!is_tree_) {
    const std::span<float> sum = level(group, 0);
    if (pass == 0)
      read_as(type, came, sum);
    else
      add_as(type, came, sum);
    return;
  }
  // As a counter counts: the lowest bits that are set are added up and carried to the next.
  const int carried = std::countr_one(static_cast<unsigned>(pass));
  const std::span<float> into = level(group, carried);
  read_as(type, came, into);
  for (int bit = 0; bit < carried; ++bit) add_before(level(group, bit), into);
}

void PassSums::close(int passes) {
  if (!is_tree_) return;
  const auto count = static_cast<unsigned>(passes);
  top_ = std::countr_zero(count);
  for (int bit = top_ + 1; bit < static_cast<int>(std::bit_width(count));
       ++bit) {  // what the counter has left
    if ((count >> bit & 1U) == 0) continue;
    for (GroupId group = 0; group < begins_.size(); ++group)
      add_before(level(group, bit), level(group, top_));
  }
}

}  // namespace tutti::training
