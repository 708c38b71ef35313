#include "training/buckets.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "training/outcome.hpp"

namespace tutti::training {
namespace {

Status check_order(const ParameterTable& table, std::span<const ParameterId> order) {
  std::vector<bool> seen(table.size());
  for (const ParameterId parameter : order) {
    if (parameter >= table.size())
      return failure(Code::kInvalidArgument, "the order names parameter {}, and there are {}",
                     parameter, table.size());
    if (seen[parameter])
      return failure(Code::kInvalidArgument, "the order has parameter '{}' twice",
                     table[parameter].name);
    seen[parameter] = true;
  }
  if (order.size() == table.size()) return ok_status();
  return failure(Code::kInvalidArgument, "the order has {} parameters of {}", order.size(),
                 table.size());
}

}  // namespace

std::vector<ParameterId> reverse_order(const ParameterTable& table) {
  std::vector<ParameterId> order(table.size());
  std::iota(order.rbegin(), order.rend(), ParameterId{0});
  return order;
}

Result<std::vector<Group>> cut_buckets(const ParameterTable& table,
                                       std::span<const ParameterId> order,
                                       const BucketLimits& limits) {
  if (limits.first_elements == 0 || limits.elements == 0)
    return failure(Code::kInvalidArgument, "a bucket of 0 elements holds nothing: give at least 1");
  TRAINING_TRY(check_order(table, order));
  std::vector<Group> buckets;
  std::size_t room = 0;
  for (const ParameterId parameter : order) {
    if (room == 0) {
      room = buckets.empty() ? limits.first_elements : limits.elements;
      buckets.push_back({fmt::format("bucket {}", buckets.size()), {}});
    }
    buckets.back().parameters.push_back(parameter);
    room -= std::min(room, table.elements(parameter));
  }
  return buckets;
}

}  // namespace tutti::training
