#include "src/wire/message_engine_streams.hpp"

#include "src/base/result.hpp"

namespace tutti {
namespace {

bool calls_agree(const CallSignature& sent, const CallSignature& expected) {
  if (sent.collective == Collective::kSend && expected.collective == Collective::kRecv)
    return sent.type == expected.type && sent.count == expected.count;
  return sent == expected;
}

}  // namespace

bool agree(const MessageTag& sent, std::uint64_t sent_bytes, const MessageTag& expected,
           std::uint64_t expected_bytes) {
  return sent.sequence == expected.sequence && sent_bytes == expected_bytes &&
         calls_agree(sent.call, expected.call);
}

Error mismatch_error(const Frame& sent, const Frame& expected, Rank blamed) {
  return peer_error(
      Code::kInvalidUsage, blamed,
      "rank {} sent {} as operation {} ({} bytes) where rank {} expects {} as operation {} ({} "
      "bytes), on lane {}: make every rank call the same collectives in the same order",
      sent.stream.source, describe(sent.tag.call), sent.tag.sequence, sent.bytes,
      sent.stream.destination, describe(expected.tag.call), expected.tag.sequence, expected.bytes,
      sent.stream.lane);
}

Error cancelled_error(const Frame& notice, Rank blamed) {
  const bool by_source = notice.reason == BreakReason::kSendCancelled;
  return peer_error(Code::kAborted, blamed,
                    "rank {} cancelled its {} of {} as operation {} ({} bytes) {} rank {}",
                    by_source ? notice.stream.source : notice.stream.destination,
                    by_source ? "send" : "receive", describe(notice.tag.call), notice.tag.sequence,
                    notice.bytes, by_source ? "to" : "from",
                    by_source ? notice.stream.destination : notice.stream.source);
}

}  // namespace tutti
