// Where non-temporal stores are tried first.
#pragma once

#include <cstddef>

namespace tutti::exec {

/// The first guess; store_choice.hpp measures where they pay. Value.
struct StoreGuess {
  /// Into slots that peers read. On EPYC virtual machines ordinary stores into lines that another
  /// core holds cost a remote invalidation each, and streaming was up to 7 times faster. On Xeon
  /// (Sapphire Rapids) ordinary stores, which leave the slot in a shared cache, were 1.1 to 1.8
  /// times faster.
  bool slots = false;
  /// Into outputs of at least so many bytes: they save the read for ownership, and the output would
  /// not stay in the cache anyway.
  std::size_t output_from = std::size_t{4} << 20;
  /// The same with Protocol::kDirect, where copies through the kernel, ordinary stores, fill most
  /// of it.
  std::size_t direct_output_from = std::size_t{16} << 20;
  /// The same for stores into the outputs of peers, with Protocol::kDirect.
  std::size_t peer_output_from = std::size_t{2} << 20;

  /// By the processor's maker.
  static StoreGuess for_this_machine();
};

}  // namespace tutti::exec
