#include "tools/bench/data.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>

#include "src/base/hash.hpp"

namespace tutti::bench {
namespace {

/// A small deterministic generator for building palettes.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(mix(seed)) {}
  std::uint64_t bits() { return mix(state_ += kGolden); }
  /// Uniform enough in -limit .. limit.
  std::int64_t within(std::int64_t limit) {
    const auto span = static_cast<std::uint64_t>(2 * limit + 1);
    return static_cast<std::int64_t>(bits() % span) - limit;
  }
  bool coin() { return (bits() & 1) != 0; }

 private:
  std::uint64_t state_;
};

// ---------------------------------------------------------------------------------- integers

std::vector<Bits> integer_entries(DataType type, ReduceOp op, std::size_t n, Random& random) {
  std::vector<Bits> entries(n);
  for (Bits& entry : entries) {
    entry = wrap(type, random.bits());
    if (op == ReduceOp::kProd) entry |= 1;  // even factors would soon wrap to zero
  }
  if (op == ReduceOp::kAvg) {
    // The total, not each partial sum, must fit the type: n * quotient, the rest wraps away.
    const std::int64_t top = type == DataType::kInt8    ? 127
                             : type == DataType::kUint8 ? 255
                                                        : 1 << 30;
    const std::int64_t limit = top / static_cast<std::int64_t>(n);
    const std::int64_t drawn = random.within(limit);
    const std::int64_t quotient = is_signed(type) ? drawn : std::abs(drawn);
    const std::uint64_t others = std::accumulate(entries.begin(), entries.end() - 1, Bits{0});
    entries.back() = wrap(type, static_cast<std::uint64_t>(quotient) * n - others);
  }
  return entries;
}

Bits integer_result(DataType type, ReduceOp op, std::span<const Bits> by_rank) {
  Bits total = op == ReduceOp::kProd ? 1 : 0;
  Bits extreme = by_rank[0];
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    const Bits value = by_rank[rank];
    const bool less =
        is_signed(type) ? extend(type, value) < extend(type, extreme) : value < extreme;
    const std::uint64_t factor =
        op == ReduceOp::kPreMulSum
            ? static_cast<std::uint64_t>(mulsum_factor(static_cast<Rank>(rank)))
            : 1;
    total = op == ReduceOp::kProd ? total * value : total + factor * value;
    if (less == (op == ReduceOp::kMin) && value != extreme) extreme = value;
  }
  if (op == ReduceOp::kMax || op == ReduceOp::kMin) return extreme;
  if (op != ReduceOp::kAvg) return wrap(type, total);
  const std::int64_t sum = extend(type, wrap(type, total));
  return wrap(type, static_cast<std::uint64_t>(sum / static_cast<std::int64_t>(by_rank.size())));
}

// ------------------------------------------------------------------------------------ floats

/// Sums of magnitudes up to this many units are exact in the type, in every order. Capped so that
/// the reference arithmetic in double is exact as well.
std::int64_t exact_units(DataType type) {
  return std::int64_t{1} << std::min(precision_of(type), 50);
}

/// True when the type has enough digits for `value` at some scale.
bool has_digits_for(DataType type, std::int64_t value) {
  while (value % 2 == 0) value /= 2;
  return value < exact_units(type);
}

void shuffle(std::vector<double>& values, Random& random) {
  for (std::size_t i = values.size(); i > 1; --i)
    std::swap(values[i - 1], values[random.bits() % i]);
}

/// Whole numbers whose magnitudes, each doubled when `doubled`, add up to at most exact_units. When
/// there are more ranks than units, that many ranks hold 1 or -1 and the others 0.
std::vector<double> addends(DataType type, std::size_t n, bool doubled, Random& random) {
  const std::int64_t budget = exact_units(type) / (doubled ? 2 : 1);
  const std::int64_t limit = budget / static_cast<std::int64_t>(n);
  std::vector<double> values(n, 0);
  for (std::size_t i = 0; i < n && (limit > 0 || i < static_cast<std::size_t>(budget)); ++i) {
    values[i] = limit > 0 ? static_cast<double>(random.within(limit)) : random.coin() ? 1 : -1;
  }
  return values;
}

/// Powers of two with random signs, one with an odd factor. Few exponents differ from 0, so that
/// every partial product stays inside the narrowest range (e4m3: 2^-6 .. 448).
std::vector<double> factors(std::size_t n, Random& random) {
  constexpr std::size_t kScaled = 6;
  std::vector<double> values(n);
  for (std::size_t i = 0; i < n; ++i) {
    const double magnitude = i >= kScaled ? 1 : random.coin() ? 2 : random.coin() ? 0.5 : 1;
    values[i] = random.coin() ? magnitude : -magnitude;
  }
  values[0] *= 1.5;
  return values;
}

/// Whole numbers whose sum is n times a whole number, exact in every order.
std::vector<double> multiples(DataType type, std::size_t n, Random& random) {
  const auto ranks = static_cast<std::int64_t>(n);
  const std::int64_t limit = exact_units(type) / (4 * ranks);
  std::vector<double> values(n, 0);
  if (limit > 0) {
    double others = 0;
    for (std::size_t i = 0; i + 1 < n; ++i) {
      values[i] = static_cast<double>(random.within(limit));
      others += values[i];
    }
    values.back() = static_cast<double>(ranks * random.within(limit)) - others;
  } else if (has_digits_for(type, ranks) && encode(type, static_cast<double>(ranks))) {
    values[0] = static_cast<double>(random.coin() ? ranks : -ranks);  // the average is 1 or -1
  } else {
    values[0] = random.coin() ? 1 : -1;  // no multiple of n but 0 has few enough digits
    values[1] = -values[0];
  }
  return values;
}

std::vector<double> float_entries(DataType type, ReduceOp op, std::size_t n, Random& random) {
  std::vector<double> values(n);
  switch (op) {
    case ReduceOp::kSum:
      values = addends(type, n, false, random);
      break;
    case ReduceOp::kPreMulSum:
      values = addends(type, n, true, random);
      break;
    case ReduceOp::kProd:
      values = factors(n, random);
      break;
    case ReduceOp::kAvg:
      values = multiples(type, n, random);
      break;
    case ReduceOp::kMax:
    case ReduceOp::kMin:
      for (double& value : values) value = static_cast<double>(random.within(exact_units(type)));
      break;
  }
  shuffle(values, random);
  return values;
}

double float_result(ReduceOp op, std::span<const double> by_rank) {
  double sum = 0;
  double product = 1;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    const int factor = op == ReduceOp::kPreMulSum ? mulsum_factor(static_cast<Rank>(rank)) : 1;
    sum += factor * by_rank[rank];
    product *= by_rank[rank];
  }
  switch (op) {
    case ReduceOp::kProd:
      return product;
    case ReduceOp::kMax:
      return *std::ranges::max_element(by_rank);
    case ReduceOp::kMin:
      return *std::ranges::min_element(by_rank);
    case ReduceOp::kAvg:
      return sum / static_cast<double>(by_rank.size());
    default:
      return sum;
  }
}

// ----------------------------------------------------------------------------------- palettes

template <class T>
std::vector<T> rotated(std::vector<T> entries, std::size_t rotation) {
  std::ranges::rotate(entries, entries.begin() + static_cast<std::ptrdiff_t>(rotation));
  return entries;
}

/// The numbers of one shade as bits, and the result for each rotation.
struct Shade {
  std::vector<Bits> entries;
  std::vector<Bits> results;
};

/// Zero where the type cannot hold the value, which the unit tests exclude for every palette.
Bits encoded(DataType type, double value) { return encode(type, value).value_or(0); }

Shade make_shade(DataType type, ReduceOp op, std::size_t n, Random& random) {
  Shade shade;
  shade.results.resize(n);
  if (is_float(type)) {
    const std::vector<double> values = float_entries(type, op, n, random);
    for (const double value : values) shade.entries.push_back(encoded(type, value));
    for (std::size_t rotation = 0; rotation < n; ++rotation) {
      shade.results[rotation] = encoded(type, float_result(op, rotated(values, rotation)));
    }
  } else {
    shade.entries = integer_entries(type, op, n, random);
    for (std::size_t rotation = 0; rotation < n; ++rotation) {
      shade.results[rotation] = integer_result(type, op, rotated(shade.entries, rotation));
    }
  }
  return shade;
}

// ------------------------------------------------------------------------------------ filling

/// Calls `body` with an unsigned integer of the type's width.
template <class Body>
auto with_width(DataType type, Body body) {
  switch (size_of(type)) {
    case 1:
      return body(std::uint8_t{});
    case 2:
      return body(std::uint16_t{});
    case 4:
      return body(std::uint32_t{});
    default:
      return body(std::uint64_t{});
  }
}

/// Random bytes by position. `word(i)` holds bytes 8i .. 8i+7.
class Stream {
 public:
  Stream(Rank rank, std::size_t block, std::uint64_t iteration)
      : seed_(mix(mix(static_cast<std::uint64_t>(rank) + 1) + mix(~block) + iteration * kGolden)) {}

  [[nodiscard]] std::uint64_t word(std::size_t i) const { return mix(seed_ + i * kGolden); }

 private:
  std::uint64_t seed_;
};

void fill_stream(const Stream& stream, std::byte* out, std::size_t bytes) {
  const std::size_t words = bytes / 8;
  for (std::size_t i = 0; i < words; ++i) {
    const std::uint64_t word = stream.word(i);
    std::memcpy(out + 8 * i, &word, 8);
  }
  const std::uint64_t last = stream.word(words);
  std::memcpy(out + 8 * words, &last, bytes % 8);
}

void note(Findings& findings, std::size_t index, Bits expected, Bits got) {
  if (findings.wrong++ == 0) findings.first = Findings::First{index, expected, got};
}

/// Compares the elements of one word that differs; `bytes` of it belong to the block.
void note_word(Findings& findings, DataType type, std::size_t first_index, std::uint64_t expected,
               std::uint64_t got, std::size_t bytes) {
  const std::size_t width = size_of(type);
  for (std::size_t at = 0; at < bytes; at += width) {
    const Bits want = wrap(type, expected >> (8 * at));
    const Bits have = wrap(type, got >> (8 * at));
    if (want != have) note(findings, first_index + at / width, want, have);
  }
}

void check_stream(Findings& findings, const Stream& stream, DataType type, std::size_t first_index,
                  const std::byte* data, std::size_t bytes) {
  const std::size_t per_word = 8 / size_of(type);
  for (std::size_t at = 0; at < bytes; at += 8) {
    const std::size_t valid = std::min<std::size_t>(8, bytes - at);
    const std::uint64_t mask = valid == 8 ? ~0ULL : (1ULL << (8 * valid)) - 1;
    const std::uint64_t expected = stream.word(at / 8) & mask;
    std::uint64_t got = 0;
    std::memcpy(&got, data + at, valid);
    if (got != expected) [[unlikely]] {
      note_word(findings, type, first_index + at / 8 * per_word, expected, got, valid);
    }
  }
}

}  // namespace

Palette::Palette(DataType type, ReduceOp op, Rank ranks)
    : type_(type), ranks_(static_cast<std::uint32_t>(ranks)) {
  Random random(static_cast<std::uint64_t>(type) * 64 + static_cast<std::uint64_t>(op));
  inputs_.resize(std::size_t{ranks_} * kShades);
  results_.resize(std::size_t{ranks_} * kShades);
  for (std::uint32_t s = 0; s < kShades; ++s) {
    const Shade shade = make_shade(type, op, ranks_, random);
    for (std::uint32_t i = 0; i < ranks_; ++i) {
      inputs_[i * kShades + s] = shade.entries[i];
      results_[i * kShades + s] = shade.results[i];
    }
  }
}

Palette::Draw Palette::draw(std::uint64_t index, std::uint64_t iteration) const {
  const std::uint64_t hash = mix(index * kGolden + iteration);
  const auto shade = static_cast<std::uint32_t>(hash % kShades);
  const auto rotation = static_cast<std::uint32_t>(((hash >> 32) * ranks_) >> 32);
  return {shade, rotation};
}

Bits Palette::input(Rank rank, Draw draw) const {
  std::uint32_t entry = static_cast<std::uint32_t>(rank) + draw.rotation;
  if (entry >= ranks_) entry -= ranks_;
  return inputs_[entry * kShades + draw.shade];
}

Bits Palette::result(Draw draw) const { return results_[draw.rotation * kShades + draw.shade]; }

Data::Data(const Shape& shape) : shape_(shape) {
  if (reduces(shape.test)) palette_.emplace(shape.type, shape.op, shape.ranks);
}

void Data::fill(Rank rank, std::uint64_t iteration, std::byte* send) const {
  const std::size_t blocks = blocks_of(shape_, rank).send;
  if (!palette_) {
    for (std::size_t block = 0; block < blocks; ++block) {
      fill_stream({rank, block, iteration}, send + block * shape_.block_bytes(),
                  shape_.block_bytes());
    }
    return;
  }
  with_width(shape_.type, [&]<class Word>(Word) {
    for (std::size_t i = 0; i < blocks * shape_.count; ++i) {
      const auto value = static_cast<Word>(palette_->input(rank, palette_->draw(i, iteration)));
      std::memcpy(send + i * sizeof(Word), &value, sizeof(Word));
    }
  });
}

Findings Data::check(Rank rank, std::uint64_t iteration, const std::byte* recv) const {
  Findings findings;
  const std::size_t blocks = blocks_of(shape_, rank).recv;
  if (!palette_) {
    for (std::size_t block = 0; block < blocks; ++block) {
      const Origin origin = origin_of(shape_, rank, block);
      check_stream(findings, {origin.rank, origin.block, iteration}, shape_.type,
                   block * shape_.count, recv + block * shape_.block_bytes(), shape_.block_bytes());
    }
    return findings;
  }
  // Reduce-scatter leaves rank r with the r-th block of the reduced vector.
  const std::size_t first =
      shape_.test == Collective::kReduceScatter ? static_cast<std::size_t>(rank) * shape_.count : 0;
  with_width(shape_.type, [&]<class Word>(Word) {
    for (std::size_t i = 0; i < blocks * shape_.count; ++i) {
      const auto expected =
          static_cast<Word>(palette_->result(palette_->draw(first + i, iteration)));
      Word got;
      std::memcpy(&got, recv + i * sizeof(Word), sizeof(Word));
      if (got != expected) [[unlikely]]
        note(findings, i, expected, got);
    }
  });
  return findings;
}

namespace {
constexpr std::byte kGuard{0xb7};
}  // namespace

void set_guard(std::byte* guard) { std::memset(guard, static_cast<int>(kGuard), kGuardBytes); }

std::size_t broken_guard_bytes(const std::byte* guard) {
  return kGuardBytes - static_cast<std::size_t>(std::count(guard, guard + kGuardBytes, kGuard));
}

}  // namespace tutti::bench
