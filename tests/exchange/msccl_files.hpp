// MSCCL files as values: written as text, changed at random, and executed on numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>

#include "src/exchange/msccl_algo.hpp"
#include "src/ir/request.hpp"
#include "tutti/error.hpp"

namespace tutti::exchange {

/// The file that parse_msccl_xml() reads as `algo`, which has one purpose.
std::string text_of(const MscclAlgo& algo);

enum class FileMutation : std::uint8_t {
  kWaitGone,    ///< a step waits for no other thread block any more
  kWaitMoved,   ///< it waits for the step before or after, or for another thread block
  kWaitHidden,  ///< hasdep is gone, so waiters wait for a later step
  kSwap,        ///< two neighbours of a thread block change places
  kSplit,       ///< the steps from one on that neither send nor receive run in their own block
  kDrop,        ///< a step is gone
  kDuplicate,   ///< a step happens twice
  kType,        ///< a step of another type that uses the same connections
  kChunk,       ///< an operand begins at another chunk
  kBuffer,      ///< an operand lies in another buffer
  kChannel,     ///< a thread block is on another channel
};
inline constexpr int kFileMutations = 11;
std::string_view name_of(FileMutation mutation);

/// Nothing where the chosen place has no such mutation.
std::optional<MscclAlgo> mutate(const MscclAlgo& original, FileMutation mutation,
                                std::mt19937_64& random);

/// Runs the file on random numbers, in an order that `seed` chooses among those that the format
/// allows: thread blocks take turns at random, and a step receives, reads, writes and sends at four
/// different moments. It is the plain reference for the reader and shares no logic with it. The
/// error says what went wrong: a stuck thread block, a message too many, a place outside a buffer,
/// a wrong element.
Status execute(const MscclAlgo& algo, const ir::Request& request, std::uint64_t seed);

}  // namespace tutti::exchange
