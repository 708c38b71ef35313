#include "algorithms/algorithms.hpp"

namespace tutti::algorithms {

std::span<const ir::Algorithm> all() {
  static const ir::Algorithm kAll[] = {one_shot(), two_shot(), ring()};
  return kAll;
}

}  // namespace tutti::algorithms
