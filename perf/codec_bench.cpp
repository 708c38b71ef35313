// Encoding and decoding of every format: bytes of float32 per second, beside the same loops without
// vectors and a copy. 256 KiB of values, which stay in a second-level cache.
#include <cstddef>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "src/codec/make_format.hpp"

namespace tutti::codec {
namespace {

constexpr std::size_t kCount = 64 * 1024;

std::vector<float> values() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> made(kCount);
  for (float& value : made) value = normal(random);
  return made;
}

void set_rate(benchmark::State& state) {
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * kCount * sizeof(float)));
}

void encode(benchmark::State& state, const Format& format, bool random) {
  const std::vector<float> in = values();
  std::vector<std::byte> out(format.bytes(kCount));
  for (auto _ : state) {
    format.encode(in.data(), kCount, {random, 1, 0}, out.data());
    benchmark::ClobberMemory();
  }
  set_rate(state);
}

void decode(benchmark::State& state, const Format& format) {
  std::vector<float> out = values();
  std::vector<std::byte> in(format.bytes(kCount));
  format.encode(out.data(), kCount, {}, in.data());
  for (auto _ : state) {
    benchmark::DoNotOptimize(format.decode(in.data(), kCount, out.data()));
    benchmark::ClobberMemory();
  }
  set_rate(state);
}

void copy(benchmark::State& state) {
  const std::vector<float> in = values();
  std::vector<float> out(kCount);
  for (auto _ : state) {
    std::memcpy(out.data(), in.data(), kCount * sizeof(float));
    benchmark::ClobberMemory();
  }
  set_rate(state);
}

void register_all() {
  benchmark::RegisterBenchmark("copy", copy);
  for (const FormatSummary& known : known_formats()) {
    // Formats have no state, and live as long as the program.
    static std::vector<std::shared_ptr<const Format>> formats;
    const std::string name(known.name);
    const auto made = [&](Loops loops) -> const Format& {
      formats.push_back(*make_format(known.name, loops));
      return *formats.back();
    };
    const Format &best = made(Loops::kBest), &scalar = made(Loops::kScalar);
    const auto add = [&](const std::string& what, auto function) {
      benchmark::RegisterBenchmark((name + "/" + what).c_str(), function);
    };
    add("encode", [&best](benchmark::State& state) { encode(state, best, false); });
    add("encode_random", [&best](benchmark::State& state) { encode(state, best, true); });
    add("decode", [&best](benchmark::State& state) { decode(state, best); });
    add("encode_scalar", [&scalar](benchmark::State& state) { encode(state, scalar, false); });
    add("decode_scalar", [&scalar](benchmark::State& state) { decode(state, scalar); });
  }
}

}  // namespace
}  // namespace tutti::codec

int main(int argc, char** argv) {
  tutti::codec::register_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
