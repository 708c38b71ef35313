#include "algorithms/algorithms.hpp"

namespace tutti::algorithms {

std::span<const ir::Algorithm> all() {
  static const ir::Algorithm kAll[] = {one_shot(),
                                       two_shot(),
                                       direct(),
                                       spread(),
                                       ring(),
                                       neighbor_exchange(),
                                       binomial(),
                                       k_nomial_4(),
                                       bine(),
                                       double_binary_tree(),
                                       recursive_doubling(),
                                       recursive_multiplying(),
                                       rabenseifner(),
                                       swing(),
                                       swing_latency(),
                                       circulant(),
                                       circulant_blocks(),
                                       pat(),
                                       bruck(),
                                       pairwise(),
                                       two_shot_bf16()};
  return kAll;
}

}  // namespace tutti::algorithms
