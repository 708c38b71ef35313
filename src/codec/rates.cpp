#include "src/codec/rates.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "src/base/clock.hpp"

namespace tutti::codec {
namespace {

Rates measure_rates(const Format& format, bool rounds_at_random) {
  constexpr std::size_t kCount = std::size_t{64} * 1024;
  constexpr int kTimes = 8;
  std::vector<float> values(kCount);
  for (std::size_t i = 0; i < kCount; ++i)
    values[i] = static_cast<float>(i * 2654435761U % 65536) - 32768;
  std::vector<std::byte> code(format.bytes(kCount));
  const auto ps_per_value = [&](const auto& work) {
    auto best = Clock::duration::max();
    for (int i = 0; i < kTimes; ++i) {
      const TimePoint begin = Clock::now();
      work();
      best = std::min(best, Clock::now() - begin);
    }
    return std::chrono::duration<double, std::pico>(best).count() / kCount;
  };
  const Rounding rounding{.random = rounds_at_random};
  Rates rates;
  rates.encode_ps =
      ps_per_value([&] { format.encode(values.data(), kCount, rounding, code.data()); });
  rates.decode_ps =
      ps_per_value([&] { std::ignore = format.decode(code.data(), kCount, values.data()); });
  return rates;
}

}  // namespace

Rates rates_of(const Format& format, bool rounds_at_random) {
  static std::mutex mutex;
  static std::map<std::pair<std::string, bool>, Rates> known;
  const std::scoped_lock lock(mutex);
  const std::pair key(format.traits().name, rounds_at_random);
  auto found = known.find(key);
  if (found == known.end())
    found = known.emplace(key, measure_rates(format, rounds_at_random)).first;
  return found->second;
}

}  // namespace tutti::codec
