#include "tests/device/bits.hpp"

#include <cmath>
#include <cstring>
#include <type_traits>

#include "src/device/arithmetic.hpp"

namespace tutti::device::testing {
namespace {

template <class Stored>
Stored any_bits(std::mt19937_64& random) {
  const std::uint64_t bits = random();
  Stored stored;
  std::memcpy(&stored, &bits, sizeof stored);
  return stored;
}

/// Neither very small nor very large.
template <class E>
typename E::Stored ordinary(std::mt19937_64& random) {
  using Value = typename E::Value;
  if constexpr (std::is_integral_v<Value>) {
    return any_bits<Value>(random);
  } else {
    std::uniform_real_distribution<double> numbers(-4, 4);
    return E::store(static_cast<Value>(numbers(random)));
  }
}

template <class Pick>
void fill(DataType type, std::span<std::byte> bytes, const Pick& pick) {
  with_element(type, [&]<class E>(E) {
    using Stored = typename E::Stored;
    for (std::size_t at = 0; at + sizeof(Stored) <= bytes.size(); at += sizeof(Stored)) {
      const Stored stored = pick(E{});
      std::memcpy(bytes.data() + at, &stored, sizeof stored);
    }
  });
}

}  // namespace

void fill_with_elements(DataType type, std::mt19937_64& random, std::span<std::byte> bytes) {
  fill(type, bytes, [&]<class E>(E) {
    return random() % 4 == 0 ? any_bits<typename E::Stored>(random) : ordinary<E>(random);
  });
}

void fill_with_numbers(DataType type, std::mt19937_64& random, std::span<std::byte> bytes) {
  fill(type, bytes, [&]<class E>(E) { return ordinary<E>(random); });
}

void unify_nans(DataType type, std::span<std::byte> bytes) {
  with_element(type, [&]<class E>(E) {
    using Stored = typename E::Stored;
    for (std::size_t at = 0; at + sizeof(Stored) <= bytes.size(); at += sizeof(Stored)) {
      Stored stored;
      std::memcpy(&stored, bytes.data() + at, sizeof stored);
      const auto value = E::load(stored);
      if (value != value) std::memset(bytes.data() + at, 0xff, sizeof stored);
    }
  });
}

}  // namespace tutti::device::testing
