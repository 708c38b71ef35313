// What a switch that adds, and its workers, spend on a full packet of 352 values. Each case prints
// the time of one packet. The cases of DataPlane are a contribution from its bytes to what is sent.
#include <optional>
#include <vector>

#include <benchmark/benchmark.h>

#include "src/switch/combine.hpp"
#include "src/switch/data_plane.hpp"
#include "src/switch/exponents.hpp"
#include "src/switch/worker.hpp"

namespace tutti::in_network {
namespace {

constexpr std::size_t kValueBytes = kChunkBytes, kChunkValues = kChunkBytes / 4;
constexpr Fixed kEight{.members = 8};

void count_bytes(benchmark::State& state) {
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * kValueBytes));
}

void combine_packet(benchmark::State& state) {
  const auto lanes = static_cast<Lanes>(state.range(0));
  std::vector<std::byte> sums(kValueBytes, std::byte{3});
  const std::vector<std::byte> values(kValueBytes, std::byte{1});
  for (auto _ : state) {
    combine(lanes, sums, values);
    benchmark::DoNotOptimize(sums.data());
    benchmark::ClobberMemory();
  }
  count_bytes(state);
}
BENCHMARK(combine_packet)
    ->ArgName("lanes")
    ->Arg(static_cast<int>(Lanes::kInt32Sum))
    ->Arg(static_cast<int>(Lanes::kInt32Min))
    ->Arg(static_cast<int>(Lanes::kUint32Max));

void seal_packet(benchmark::State& state) {
  Sealer sealer(PacketKey{});
  const std::vector<std::byte> values(kValueBytes, std::byte{1});
  PacketBytes room;
  for (auto _ : state)
    benchmark::DoNotOptimize(sealer.seal({.count = kChunkValues, .values = values}, room));
  count_bytes(state);
}
BENCHMARK(seal_packet);

/// Values of each type: bits of 1.0 and the like.
std::vector<std::byte> values_of_type(DataType type) {
  std::vector<std::byte> values(kChunkValues * size_of(type));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] =
        i % size_of(type) == size_of(type) - 1 ? std::byte{0x3f} : static_cast<std::byte>(i);
  return values;
}

void find_exponent(benchmark::State& state) {
  const auto type = static_cast<DataType>(state.range(0));
  const auto values = values_of_type(type);
  for (auto _ : state)
    benchmark::DoNotOptimize(exponent_of(type, values.data(), kChunkValues, kEight));
  count_bytes(state);
}
void quantise_packet(benchmark::State& state) {
  const auto type = static_cast<DataType>(state.range(0));
  const auto values = values_of_type(type);
  std::vector<std::byte> lanes(kValueBytes);
  for (auto _ : state) {
    quantise(type, values.data(), kChunkValues, scale_of(2, kEight), lanes.data());
    benchmark::ClobberMemory();
  }
  count_bytes(state);
}
void dequantise_packet(benchmark::State& state) {
  const auto type = static_cast<DataType>(state.range(0));
  auto values = values_of_type(type);
  const std::vector<std::int32_t> lanes(kChunkValues, 1'000'003);
  for (auto _ : state) {
    dequantise(type, std::as_bytes(std::span(lanes)), scale_of(2, kEight), values.data());
    benchmark::ClobberMemory();
  }
  count_bytes(state);
}
void each_type(benchmark::internal::Benchmark* bench) {
  bench->ArgName("type");
  for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16})
    bench->Arg(static_cast<int>(type));
}
BENCHMARK(find_exponent)->Apply(each_type);
BENCHMARK(quantise_packet)->Apply(each_type);
BENCHMARK(dequantise_packet)->Apply(each_type);

/// A worker that sends each chunk of an all-reduce and gets a result at once.
void send_and_receive(benchmark::State& state) {
  const auto type = static_cast<DataType>(state.range(0));
  constexpr std::size_t kChunks = 4096;
  std::vector<std::byte> input;
  const auto chunk = values_of_type(type);
  for (std::size_t i = 0; i < kChunks; ++i) input.insert(input.end(), chunk.begin(), chunk.end());
  std::vector<std::byte> output(input.size());
  Worker worker({.member = {.number = 0, .of = 8}, .slots = 64});
  PacketBytes room;
  const TimePoint now{};
  for (auto _ : state) {
    if (worker.progress() != Progress::kRunning)
      benchmark::DoNotOptimize(worker.begin({.type = type,
                                             .count = kChunks * kChunkValues,
                                             .input = input.data(),
                                             .output = output.data()},
                                            now));
    std::optional<Packet> packet = worker.next_packet(now, room);
    packet->kind = PacketKind::kResult;
    packet->sender = kTheSwitch;
    packet->wants = false;
    worker.received(*packet, now);
  }
  count_bytes(state);
}

BENCHMARK(send_and_receive)
    ->ArgName("type")
    ->Arg(static_cast<int>(DataType::kInt32))
    ->Arg(static_cast<int>(DataType::kFloat32))
    ->Arg(static_cast<int>(DataType::kBfloat16));

struct DroppingSink final : PacketSink {
  void heard(const Session& /*session*/, std::uint8_t /*worker*/) override {}
  void to_workers(const Session& /*session*/, std::uint32_t /*workers*/,
                  std::span<const std::byte> bytes) override {
    benchmark::DoNotOptimize(bytes.data());
  }
  void to_above(const Session& /*session*/, std::span<const std::byte> /*bytes*/) override {}
  void reply(std::span<const std::byte> /*bytes*/) override {}
};

/// All contributions of so many workers to chunk after chunk, sealed beforehand in batches.
void take_contributions(benchmark::State& state) {
  const auto workers = static_cast<unsigned>(state.range(0));
  constexpr std::uint32_t kSlots = 64;
  Sessions sessions({.slots = 256, .sessions = 2, .least_slots = 64});
  if (!sessions.open({.id = 1, .key = {}, .workers = workers, .slots = kSlots}, {})) return;
  DataPlane plane(sessions);
  DroppingSink sink;
  std::vector<Sealer> sealers(workers, Sealer(PacketKey{}));
  std::vector<PacketBytes> packets(std::size_t{kSlots} * workers);
  const std::vector<std::byte> values(kValueBytes, std::byte{1});
  std::uint64_t chunk = 0;
  std::size_t at = packets.size();
  for (auto _ : state) {
    if (at == packets.size()) {
      state.PauseTiming();
      for (at = 0; at < packets.size(); ++at) {
        const auto worker = static_cast<std::uint8_t>(at % workers);
        const Packet packet{.sender = worker,
                            .session = 1,
                            .chunk = chunk,
                            .count = kChunkValues,
                            .wants = true,
                            .values = values};
        benchmark::DoNotOptimize(sealers[worker].seal(packet, packets[at]).data());
        if (worker + 1U == workers) ++chunk;
      }
      at = 0;
      state.ResumeTiming();
    }
    plane.take(packets[at++], {}, sink);
  }
  count_bytes(state);
}
BENCHMARK(take_contributions)->ArgName("workers")->Arg(2)->Arg(8)->Arg(32);

}  // namespace
}  // namespace tutti::in_network

BENCHMARK_MAIN();
