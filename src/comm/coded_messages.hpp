// The sends and receives of a group that travel in a format: those of a compressed all-to-all with
// blocks of different sizes. What is sent is encoded before the group moves anything, and what has
// come is decoded after all has.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "src/codec/format.hpp"
#include "src/comm/call.hpp"
#include "src/exec/converter.hpp"
#include "src/exec/point_to_point.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti {

/// Resource. Used by the thread of its communicator.
class CodedMessages {
 public:
  /// `transfer` is what `call`, which has a wire_of(), would be without its compressor. From now on
  /// it moves the bytes of the format.
  void add(const Call& call, exec::PointToPoint& transfer);
  /// All of a group at once, as decode(): nothing else of this thread gets on meanwhile, at 2 to 10
  /// GB/s. Random rounding depends on the call, on `rank`, and on the number of a value among all
  /// that the group sends with one compressor.
  Status encode(Rank rank);
  /// kPeerFailed names the rank whose bytes no encoding writes.
  Status decode();

 private:
  struct Message {
    Call call;
    std::shared_ptr<const codec::Format> format;
    std::vector<std::byte> bytes;  ///< transfers point to them
  };

  std::vector<Message> messages_;
  exec::Converter converter_;
};

}  // namespace tutti
