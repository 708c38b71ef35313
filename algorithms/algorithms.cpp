#include "algorithms/algorithms.hpp"

namespace tutti::algorithms {

std::span<const ir::Algorithm> all() {
  static const ir::Algorithm kAll[] = {one_shot(),
                                       two_shot(),
                                       direct(),
                                       spread(),
                                       ring(),
                                       double_binary_tree(),
                                       recursive_doubling(),
                                       rabenseifner(),
                                       circulant(),
                                       circulant_blocks(),
                                       bruck(),
                                       pairwise(),
                                       two_shot_bf16()};
  return kAll;
}

}  // namespace tutti::algorithms
