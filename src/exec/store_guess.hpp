// Where streaming stores are tried first.
#pragma once

#include <cstddef>

namespace tutti::exec {

/// Where streaming stores are tried first; store_choice.hpp measures where they pay.
struct StoreGuess {
  /// To slots that peers read. On EPYC virtual machines streaming was up to 7 times faster, because
  /// each ordinary store to a line that another core holds costs a remote invalidation. On Xeon
  /// (Sapphire Rapids) ordinary stores were 1.1 to 1.8 times faster, because they leave the slot in
  /// a shared cache.
  bool slots = false;
  /// To outputs of at least this many bytes. Streaming saves the read for ownership, and such an
  /// output would not stay in the cache anyway.
  std::size_t output_from = std::size_t{4} << 20;
  /// The same with ProgramProtocol::kDirect, where the kernel's copies, which use ordinary stores,
  /// fill most of the output.
  std::size_t direct_output_from = std::size_t{16} << 20;
  /// The same for stores to peers' outputs, with ProgramProtocol::kDirect.
  std::size_t peer_output_from = std::size_t{2} << 20;

  /// By the processor's vendor.
  static StoreGuess for_this_machine();
};

}  // namespace tutti::exec
