// Encoding and decoding of every format: bytes of float32 per second, beside the same loops without
// vectors and a copy. 256 KiB of values, which stay in a second-level cache, or --bytes=N of them.
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <benchmark/benchmark.h>

#include "src/codec/make_format.hpp"

namespace tutti::codec {
namespace {

std::size_t count = 64 * 1024;

std::vector<float> values() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> made(count);
  for (float& value : made) value = normal(random);
  return made;
}

void set_rate(benchmark::State& state) {
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(count * sizeof(float)));
}

void encode(benchmark::State& state, const Format& format, bool random) {
  const std::vector<float> in = values();
  std::vector<std::byte> out(format.bytes(count));
  for (auto _ : state) {
    format.encode(in.data(), count, {random, 1, 0}, out.data());
    benchmark::ClobberMemory();
  }
  set_rate(state);
}

void decode(benchmark::State& state, const Format& format) {
  std::vector<float> out = values();
  std::vector<std::byte> in(format.bytes(count));
  format.encode(out.data(), count, {}, in.data());
  for (auto _ : state) {
    benchmark::DoNotOptimize(format.decode(in.data(), count, out.data()));
    benchmark::ClobberMemory();
  }
  set_rate(state);
}

void copy(benchmark::State& state) {
  const std::vector<float> in = values();
  std::vector<float> out(count);
  for (auto _ : state) {
    std::memcpy(out.data(), in.data(), count * sizeof(float));
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
  benchmark::Initialize(&argc, argv);
  constexpr std::string_view kBytes = "--bytes=";
  if (argc == 2 && std::string_view(argv[1]).starts_with(kBytes)) {
    tutti::codec::count = std::strtoull(argv[1] + kBytes.size(), nullptr, 10) / sizeof(float);
    if (tutti::codec::count > 0) argc = 1;
  }
  tutti::codec::register_all();
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
