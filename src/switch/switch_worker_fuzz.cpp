// A worker that hears anything from its switch writes only its output, and sends only packets.
//
// The input chooses an operation, then is a program of records: time passes, or a packet comes
// whose fields come from a few values that collide often.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <span>
#include <vector>

#include "src/base/bytes.hpp"
#include "src/switch/worker.hpp"

namespace tutti::in_network {
namespace {

constexpr std::array<DataType, 5> kTypes{DataType::kInt32, DataType::kFloat32, DataType::kFloat16,
                                         DataType::kUint8, DataType::kInt64};
constexpr std::array<float, 4> kFactors{1, -0.5F, 1e30F, std::numeric_limits<float>::quiet_NaN()};
constexpr std::array<unsigned, 4> kBits{32, 16, 8, 5};
constexpr std::array<Collective, 5> kCollectives5{
    Collective::kAllReduce, Collective::kReduce, Collective::kBroadcast, Collective::kReduceScatter,
    Collective::kAllGather};

/// Buffers of exactly the bytes that a worker may touch, so that a sanitizer sees the rest.
struct Buffers {
  std::vector<std::byte> input, output;
};

Operation operation_from(ByteReader& in, const Member& member, Buffers& buffers) {
  Operation operation{.collective = kCollectives5[in.get<std::uint8_t>() % kCollectives5.size()],
                      .type = kTypes[in.get<std::uint8_t>() % kTypes.size()],
                      .bits = kBits[in.get<std::uint8_t>() % kBits.size()],
                      .factor = kFactors[in.get<std::uint8_t>() % kFactors.size()],
                      .root = static_cast<Rank>(in.get<std::uint8_t>() % member.of),
                      .count = in.get<std::uint16_t>() % std::size_t{2000}};
  const std::size_t block = operation.count * size_of(operation.type);
  const bool scatters = operation.collective == Collective::kReduceScatter;
  const bool gathers = operation.collective == Collective::kAllGather;
  buffers.input.assign(block * (scatters ? member.of : 1), std::byte{in.get<std::uint8_t>()});
  buffers.output.assign(block * (gathers ? member.of : 1), std::byte{0});
  operation.input = buffers.input.data();
  operation.output = buffers.output.data();
  return operation;
}

void hear(ByteReader& in, const Packet& last, Worker& worker, TimePoint now) {
  static const std::array<std::byte, kChunkBytes> values{std::byte{250}, std::byte{7}};
  const auto pick = in.get<std::uint8_t>();
  Packet packet{.kind = static_cast<PacketKind>(1 + pick % 4), .lanes = last.lanes};
  if ((pick & 64) != 0) packet.lanes = static_cast<Lanes>(in.get<std::uint8_t>() % kLanes);
  packet.chunk = last.chunk - (pick >> 2 & 7);
  packet.count = last.count;
  if ((pick & 128) != 0)
    packet.count =
        static_cast<std::uint16_t>(in.get<std::uint16_t>() % (most_values(packet.lanes) + 1));
  packet.exponent = in.get<std::int16_t>();
  packet.call = last.call;
  packet.workers = pick;
  packet.reason = Refusal::kCallsDiffer;
  if (packet.kind == PacketKind::kResult && (pick & 32) != 0)
    packet.values = std::span(values).first(packet.count * width_of(packet.lanes));
  packet.left_out = packet.values.empty() && (packet.exponent & 1) != 0;
  worker.received(packet, now);
}

}  // namespace
}  // namespace tutti::in_network

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti;
  using namespace tutti::in_network;
  ByteReader in(std::as_bytes(std::span(data, size)));
  const Member member{.number = 1, .of = 3};
  Worker worker({.member = member, .slots = 1U + in.get<std::uint8_t>() % 4});
  Buffers buffers;
  TimePoint now{};
  Packet last;
  PacketBytes room;
  PacketBytes built;
  while (in.left() > 0) {
    const auto record = in.get<std::uint8_t>();
    if (worker.progress() != Progress::kRunning && worker.progress() != Progress::kFailed)
      (void)worker.begin(operation_from(in, member, buffers), now);
    if (record < 32) worker.hinted_unknown();
    if (record < 96) now += std::chrono::milliseconds(record);
    while (const auto packet = worker.next_packet(now, room)) {
      last = *packet;
      Packet again;
      if (parse(build(last, built), again) != Flaw::kNone) std::abort();
    }
    if (record >= 96) hear(in, last, worker, now);
  }
  return 0;
}
