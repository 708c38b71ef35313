#include "src/comm/coded_messages.hpp"

#include <array>
#include <map>
#include <utility>

#include "src/base/result.hpp"
#include "src/comm/compressor.hpp"

namespace tutti {

void CodedMessages::add(const Call& call, exec::PointToPoint& transfer) {
  Message message{call, wire_of(call), {}};
  message.bytes.resize(message.format->bytes(call.count));
  transfer.data = message.bytes.data();
  transfer.bytes = message.bytes.size();
  messages_.push_back(std::move(message));
}

Status CodedMessages::encode(Rank rank) {
  struct Use {
    codec::Rounding rounding;
    std::size_t values = 0;  ///< encoded so far
  };
  std::map<Compressor*, Use> uses;
  for (Message& message : messages_) {
    const Call& call = message.call;
    if (call.collective != Collective::kSend) continue;
    auto use = uses.find(call.compressor);
    if (use == uses.end()) {
      const Compressor::Series series{.rank = rank, .call = signature_of(call)};
      TUTTI_ASSIGN(const exec::Coding coding, call.compressor->begin(series, 0));
      use = uses.emplace(call.compressor, Use{coding.rounding}).first;
    }
    exec::Encoding encoding{.rounding = use->second.rounding};
    encoding.rounding.first = use->second.values;
    use->second.values += call.count;
    const std::array sources{exec::CodedSource{static_cast<const std::byte*>(call.send)}};
    const std::array destinations{
        exec::CodedDestination{{message.bytes.data()}, message.format.get()}};
    const Reduction copy{.type = call.type, .op = ReduceOp::kSum};
    const exec::BusyTime::Counted counted(&call.compressor->busy_time());
    TUTTI_TRY(converter_.combine(copy, sources, destinations, call.count, encoding));
  }
  return ok_status();
}

Status CodedMessages::decode() {
  for (const Message& message : messages_) {
    const Call& call = message.call;
    if (call.collective != Collective::kRecv) continue;
    const std::array sources{exec::CodedSource{message.bytes.data(), message.format.get()}};
    const std::array destinations{exec::CodedDestination{{static_cast<std::byte*>(call.recv)}}};
    const Reduction copy{.type = call.type, .op = ReduceOp::kSum};
    const exec::BusyTime::Counted counted(&call.compressor->busy_time());
    TUTTI_ASSIGN(const bool valid, converter_.combine(copy, sources, destinations, call.count, {}));
    if (!valid)
      return peer_error(Code::kPeerFailed, call.root,
                        "rank {} sent {} bytes that no encoding in {} writes", call.root,
                        message.bytes.size(), message.format->traits().name);
  }
  return ok_status();
}

}  // namespace tutti
