// Feeds a live engine with what a hostile peer may send, while this side posts and cancels.
//
// The input is a program of small records: some post a send or a receive, some cancel, most become
// a frame whose fields come from a few values that collide often, some repeat the eager frame
// before them by a brief header, and some are raw bytes. The peer has two links, of which the
// second carries data alone.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "src/base/bytes.hpp"
#include "src/wire/message_engine.hpp"
#include "src/wire/scripted_link.hpp"

namespace tutti {
namespace {

constexpr std::size_t kTransfers = 16;
constexpr std::array<std::size_t, 8> kSizes{0, 1, 100, 3000, 16384, 16385, 200000, 131072};

StreamId stream_of(std::uint8_t pick) {
  return {1, pick & 1, 1 - (pick & 1), static_cast<Lane>(pick >> 1 & 1)};
}

MessageTag tag_of(std::uint8_t pick) {
  return {static_cast<std::uint64_t>(pick >> 7), {Collective::kAllReduce, {}, {}, 0, 1}};
}

Frame frame_from(ByteReader& in) {
  Frame frame;
  frame.type = static_cast<FrameType>(1 + in.get<std::uint8_t>() % 7);
  frame.reason = static_cast<BreakReason>(in.get<std::uint8_t>() % 4);
  const auto pick = in.get<std::uint8_t>();
  frame.stream = stream_of(pick);
  frame.tag = tag_of(pick);
  const auto message = in.get<std::uint8_t>();  // of one of two lives of the stream
  frame.message = (message >> 7) * 2 * kMessageEpoch + (message & 127);
  frame.bytes = kSizes[in.get<std::uint8_t>() % kSizes.size()];
  frame.offset = kSizes[in.get<std::uint8_t>() % kSizes.size()];
  if (frame.type == FrameType::kEager) frame.payload = static_cast<std::uint32_t>(frame.bytes);
  if (frame.type == FrameType::kEager) frame.offset = 0;
  if (frame.type == FrameType::kBreak && frame.reason == BreakReason::kMismatch)
    frame.payload = kHeaderBytes;
  if (frame.type == FrameType::kData) {
    frame.offset = frame.offset / kChunkBytes * kChunkBytes;
    const std::uint64_t left = frame.bytes > frame.offset ? frame.bytes - frame.offset : 0;
    const bool fits = in.get<std::uint8_t>() % 16 != 0;
    frame.payload = fits ? static_cast<std::uint32_t>(std::min<std::uint64_t>(kChunkBytes, left))
                         : in.get<std::uint16_t>();
  }
  return frame;
}

Frame next_of(Frame frame, unsigned sequences) {
  ++frame.message;
  frame.tag.sequence += sequences;
  return frame;
}

}  // namespace
}  // namespace tutti

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti;
  ByteReader in(std::as_bytes(std::span(data, size)));
  const std::array scripts{std::make_shared<ScriptedLink::Script>(),
                           std::make_shared<ScriptedLink::Script>()};
  static std::array<std::array<std::byte, 200000>, kTransfers> buffers;
  std::array<Transfer, kTransfers> transfers;
  std::array<StreamId, kTransfers> streams;
  Frame eager{.type = FrameType::kEager};
  {
    std::vector<std::unique_ptr<ByteLink>> links;
    for (const auto& script : scripts) links.push_back(std::make_unique<ScriptedLink>(script));
    MessageEngine engine(std::move(links), EngineOptions{.peer = 1, .link_name = "fuzz"});
    while (in.left() > 0) {
      const auto record = in.get<std::uint8_t>();
      const std::size_t slot = record % kTransfers;
      Transfer& transfer = transfers[slot];
      const bool pending = transfer.state == Transfer::State::kPending;
      if (record < 64 && !pending) {
        const auto pick = in.get<std::uint8_t>();
        const auto buffer = std::span(buffers[slot]).first(kSizes[pick >> 2 & 7]);
        streams[slot] = stream_of(pick);
        if ((pick & 1) == 0)
          engine.send(streams[slot], tag_of(pick), buffer, transfer);
        else
          engine.recv(streams[slot], tag_of(pick), buffer, transfer);
      } else if (record < 80) {
        engine.cancel(streams[slot], transfer);
      } else if (record < 85) {
        scripts[0]->append(in.bytes(std::min<std::size_t>(record, in.left())));
      } else if (record < 110) {
        const Frame before = std::exchange(eager, next_of(eager, record % 2));
        ScriptedLink::Script& script = *scripts[record < 108 ? 0 : 1];
        script.append(*encode_brief(eager, before));
        script.append(Blob(eager.payload));
      } else {
        const Frame frame = frame_from(in);
        if (frame.type == FrameType::kEager) eager = frame;
        scripts[frame.type == FrameType::kData && record >= 160 ? 1 : 0]->append(frame);
      }
      engine.progress();
    }
    (void)engine.health();
  }
  for (const Transfer& transfer : transfers)
    if (transfer.state == Transfer::State::kPending) __builtin_trap();
  return 0;
}
