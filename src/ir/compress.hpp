// Makes a schedule send its data in a format: any algorithm can carry compressed data.
//
// Each message that is compressed carries formatted values. A value is encoded once, by the rank
// that has it plain, when it is first needed; it is forwarded as it came, and decoded where a rank
// needs numbers: in a sum, or in its output. Whoever encodes a value uses from then on what it
// sent, not what it had before. So all ranks that end with one value have the same bits of it, and
// that includes the rank that it came from.
//
// A contribution is rounded as often as it is sent by a rank that has just added something to it,
// and once when it is first sent: so once by an algorithm that adds everything where the result is
// wanted, twice by one that adds everything at an owner and hands the sum out, and once more with
// every level. verify() counts that.
//
// Sources: this is the order of encoding and adding of ZeRO++ (arXiv 2306.10209, qwZ from
// all_gather and qgZ from a two-level reduce_scatter), of Flash Communication (arXiv 2412.04964,
// from two_shot), and, with the error of each encoding kept for the next call, of 1-bit Adam (arXiv
// 2102.02888, from two_shot).
#pragma once

#include <string_view>

#include "src/ir/schedule.hpp"

namespace tutti::ir {

/// The name of the format that a schedule's runner chooses for each call.
inline constexpr std::string_view kWireFormat = "wire";

enum class CompressedMessages : std::uint8_t {
  kAll,
  /// Those between ranks of different hosts, by the request's layout; all, if it is empty.
  kBetweenHosts,
};

/// `plain` must be well-formed and have no formats. The result has one, kWireFormat, and needs a
/// proof of its own: with messages in part compressed, `same_bits` may be lost.
Schedule compress(const Schedule& plain, CompressedMessages messages);

}  // namespace tutti::ir
