#include "src/reduce/reduce.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/base/float_formats.hpp"
#include "src/reduce/choice.hpp"
#include "src/reduce/reference.hpp"

namespace tutti {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::size_t kMaxOffset = 80;  // a register and more, so that every alignment occurs
constexpr std::byte kGuard{0xa5};

std::vector<const KernelTable*> every_target() {
  std::vector<const KernelTable*> tables(kMaxKernelTables);
  tables.resize(usable_kernels(tables.data()));
  return tables;
}

bool is_nan(DataType type, const std::byte* element) {
  const auto read = [element]<class T>(T value) {
    std::memcpy(&value, element, sizeof(T));
    return value;
  };
  switch (type) {
    case DataType::kFloat16:
      return std::isnan(widen<Float16>(read(std::uint16_t{})));
    case DataType::kBfloat16:
      return std::isnan(widen<Bfloat16>(read(std::uint16_t{})));
    case DataType::kFloat8e4m3:
      return std::isnan(widen<Float8e4m3>(read(std::uint8_t{})));
    case DataType::kFloat8e5m2:
      return std::isnan(widen<Float8e5m2>(read(std::uint8_t{})));
    case DataType::kFloat32:
      return std::isnan(read(0.0F));
    case DataType::kFloat64:
      return std::isnan(read(0.0));
    default:
      return false;
  }
}

/// Equal bit for bit, where any NaN equals any other.
testing::AssertionResult same_elements(DataType type, const std::byte* got,
                                       const std::byte* expected, std::size_t count) {
  const std::size_t size = size_of(type);
  for (std::size_t i = 0; i < count; ++i) {
    const std::byte* const a = got + i * size;
    const std::byte* const b = expected + i * size;
    if (std::memcmp(a, b, size) == 0 || (is_nan(type, a) && is_nan(type, b))) continue;
    return testing::AssertionFailure() << "element " << i << " of " << count << " is "
                                       << testing::PrintToString(Bytes(a, a + size)) << ", not "
                                       << testing::PrintToString(Bytes(b, b + size));
  }
  return testing::AssertionSuccess();
}

/// Random elements. Any bit pattern, or, so that float results are often finite and tied, values
/// from a small range of exponents.
class ElementSource {
 public:
  explicit ElementSource(std::uint32_t seed) : random_(seed) {}

  void fill(DataType type, std::byte* data, std::size_t count) {
    const bool tame = pick(2) == 0;
    for (std::size_t i = 0; i < count; ++i) {
      std::uint64_t bits = random_();
      if (tame) bits = tame_bits(type);
      std::memcpy(data + i * size_of(type), &bits, size_of(type));
    }
  }

  std::size_t pick(std::size_t below) { return random_() % below; }
  Stores pick_stores() {
    constexpr Stores kAll[] = {Stores::kCached, Stores::kForPeers, Stores::kContended,
                               Stores::kNonTemporal};
    return kAll[pick(std::size(kAll))];
  }

 private:
  std::uint64_t tame_bits(DataType type) {
    const double value =
        std::ldexp(static_cast<double>(pick(4096)) - 2048, static_cast<int>(pick(8)) - 12);
    switch (type) {
      case DataType::kFloat16:
        return narrow<Float16>(static_cast<float>(value));
      case DataType::kBfloat16:
        return narrow<Bfloat16>(static_cast<float>(value));
      case DataType::kFloat8e4m3:
        return narrow<Float8e4m3>(static_cast<float>(value));
      case DataType::kFloat8e5m2:
        return narrow<Float8e5m2>(static_cast<float>(value));
      case DataType::kFloat32:
        return std::bit_cast<std::uint32_t>(static_cast<float>(value));
      case DataType::kFloat64:
        return std::bit_cast<std::uint64_t>(value);
      default:
        return static_cast<std::uint64_t>(static_cast<std::int64_t>(value * 64));
    }
  }

  std::mt19937_64 random_;
};

/// One random call of reduce() and the memory it works on.
class RandomCall {
 public:
  RandomCall(ElementSource& elements, DataType type, ReduceOp op) {
    reduction_.type = type;
    reduction_.op = op;
    if (elements.pick(3) != 0) {
      constexpr std::array<std::int32_t, 7> kDivisors = {1, 2, 3, 7, 200, 4096, 2147483647};
      reduction_.divisor = kDivisors[elements.pick(kDivisors.size())];
    }
    elements.fill(type, reduction_.scalar, 1);
    count_ = choose_count(elements);
    scaled_ = elements.pick(2) == 0 ? ~std::uint64_t{0} : elements.pick(1u << 16);
    const std::size_t source_count =
        elements.pick(4) == 0 ? 1 + elements.pick(kMaxSources) : 1 + elements.pick(4);
    for (std::size_t s = 0; s < source_count; ++s) add_source(elements);
    const std::size_t destination_count = 1 + elements.pick(kMaxDestinations);
    for (std::size_t d = 0; d < destination_count; ++d) add_destination(elements);
    expect();
  }

  testing::AssertionResult run(const KernelTable& kernels) {
    for (Bytes& memory : written_) std::fill(memory.begin(), memory.end(), kGuard);
    const std::vector<Bytes> before = sources_;
    const std::vector<Destination> destinations = make_destinations();
    const std::vector<const std::byte*> sources = source_pointers();
    const ReducePass pass{&reduction_,         sources.data(),      sources.size(), scaled_,
                          destinations.data(), destinations.size(), count_};
    const auto type = static_cast<std::size_t>(reduction_.type);
    const auto op = static_cast<std::size_t>(reduction_.op);
    if (count_ != 0) kernels.reduce[type][op](pass);
    const testing::AssertionResult result = check(destinations);
    sources_ = before;
    return result ? result : testing::AssertionFailure() << result.message() << describe();
  }

 private:
  static std::size_t choose_count(ElementSource& elements) {
    switch (elements.pick(8)) {
      case 0:
        return elements.pick(2);
      case 1:
        return 1000 + elements.pick(3000);
      default:
        return elements.pick(300);
    }
  }

  [[nodiscard]] std::size_t bytes() const { return count_ * size_of(reduction_.type); }

  void add_source(ElementSource& elements) {
    source_offsets_.push_back(elements.pick(kMaxOffset));
    sources_.emplace_back(kMaxOffset + bytes());
    elements.fill(reduction_.type, sources_.back().data() + source_offsets_.back(), count_);
  }

  void add_destination(ElementSource& elements) {
    // One in four is a source: only the first, so that no two are the same.
    in_place_.push_back(written_.empty() && elements.pick(4) == 0);
    written_.emplace_back(2 * kMaxOffset + bytes());
    const std::size_t offset = elements.pick(kMaxOffset);
    written_offsets_.push_back(elements.pick(2) == 0 ? offset / 8 * 8 : offset);
    stores_.push_back(elements.pick_stores());
  }

  std::vector<const std::byte*> source_pointers() const {
    std::vector<const std::byte*> pointers;
    for (std::size_t s = 0; s < sources_.size(); ++s) {
      pointers.push_back(sources_[s].data() + source_offsets_[s]);
    }
    return pointers;
  }

  std::vector<Destination> make_destinations() {
    std::vector<Destination> destinations;
    for (std::size_t d = 0; d < written_.size(); ++d) {
      const std::size_t source = sources_.size() / 2;
      std::byte* const data = in_place_[d] ? sources_[source].data() + source_offsets_[source]
                                           : written_[d].data() + written_offsets_[d];
      destinations.push_back({data, stores_[d]});
    }
    return destinations;
  }

  void expect() {
    expected_.resize(bytes());
    const Destination destination{expected_.data(), Stores::kCached};
    reduce_reference(reduction_, source_pointers(), scaled_, {&destination, 1}, count_);
  }

  testing::AssertionResult check(const std::vector<Destination>& destinations) const {
    for (std::size_t d = 0; d < destinations.size(); ++d) {
      const auto same =
          same_elements(reduction_.type, destinations[d].data, expected_.data(), count_);
      if (!same) return same;
      if (in_place_[d]) continue;
      const Bytes& memory = written_[d];
      const auto is_guard = [](std::byte byte) { return byte == kGuard; };
      const auto begin = memory.begin() + static_cast<std::ptrdiff_t>(written_offsets_[d]);
      const auto end = begin + static_cast<std::ptrdiff_t>(bytes());
      if (!std::all_of(memory.begin(), begin, is_guard) ||
          !std::all_of(end, memory.end(), is_guard)) {
        return testing::AssertionFailure() << "wrote outside of destination " << d;
      }
    }
    return testing::AssertionSuccess();
  }

  [[nodiscard]] std::string describe() const {
    std::string text = " (" + std::string(name_of(reduction_.type)) + " " +
                       std::string(name_of(reduction_.op)) + ", " + std::to_string(count_) +
                       " elements, " + std::to_string(sources_.size()) + " sources, divisor " +
                       std::to_string(reduction_.divisor) + ")";
    return text;
  }

  Reduction reduction_;
  std::size_t count_ = 0;
  std::uint64_t scaled_ = 0;
  std::vector<Bytes> sources_;
  std::vector<std::size_t> source_offsets_;
  std::vector<Bytes> written_;
  std::vector<std::size_t> written_offsets_;
  std::vector<bool> in_place_;
  std::vector<Stores> stores_;
  Bytes expected_;
};

TEST(Reduce, EveryTargetEqualsTheReferenceForEveryTypeAndOperator) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  ElementSource elements(seed);
  for (int type = 0; type < kDataTypes; ++type) {
    for (int op = 0; op < kReduceOps; ++op) {
      for (int repeat = 0; repeat < 60; ++repeat) {
        RandomCall call(elements, static_cast<DataType>(type), static_cast<ReduceOp>(op));
        for (const KernelTable* target : every_target()) {
          ASSERT_TRUE(call.run(*target)) << target->name;
        }
      }
    }
  }
}

/// reduce() of two one-element sources per pair of codes, for a type of one or two bytes.
template <class Bits>
void expect_all_codes_narrow_like_the_reference(DataType type, ReduceOp op) {
  constexpr std::size_t kCodes = std::size_t{1} << (8 * sizeof(Bits));
  std::vector<Bits> left(kCodes);
  std::vector<Bits> right(kCodes);
  for (std::size_t i = 0; i < kCodes; ++i) left[i] = static_cast<Bits>(i);
  for (const std::size_t distance :
       {std::size_t{0}, std::size_t{1}, kCodes / 2, kCodes / 2 - 7, kCodes / 16 + 1}) {
    for (std::size_t i = 0; i < kCodes; ++i) right[i] = static_cast<Bits>(i + distance);
    const std::array sources = {reinterpret_cast<const std::byte*>(left.data()),
                                reinterpret_cast<const std::byte*>(right.data())};
    const Reduction reduction{.type = type, .op = op};
    std::vector<Bits> expected(kCodes);
    std::vector<Bits> got(kCodes);
    const Destination reference{reinterpret_cast<std::byte*>(expected.data())};
    const Destination fast{reinterpret_cast<std::byte*>(got.data())};
    reduce_reference(reduction, sources, 0, {&reference, 1}, kCodes);
    for (const KernelTable* target : every_target()) {
      const ReducePass pass{&reduction, sources.data(), 2, 0, &fast, 1, kCodes};
      target->reduce[static_cast<int>(type)][static_cast<int>(op)](pass);
      ASSERT_TRUE(same_elements(type, fast.data, reference.data, kCodes))
          << target->name << " " << name_of(type) << " " << name_of(op) << " distance " << distance;
    }
  }
}

TEST(Reduce, EveryCodeOfANarrowFloatIsCombinedAsByTheReference) {
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMax, ReduceOp::kMin}) {
    expect_all_codes_narrow_like_the_reference<std::uint16_t>(DataType::kFloat16, op);
    expect_all_codes_narrow_like_the_reference<std::uint16_t>(DataType::kBfloat16, op);
    expect_all_codes_narrow_like_the_reference<std::uint8_t>(DataType::kFloat8e4m3, op);
    expect_all_codes_narrow_like_the_reference<std::uint8_t>(DataType::kFloat8e5m2, op);
  }
}

template <class T, std::size_t kCount>
std::array<T, kCount> reduce_pair(const Reduction& reduction, const std::array<T, kCount>& a,
                                  const std::array<T, kCount>& b, std::uint64_t scaled = 0) {
  const std::array sources = {reinterpret_cast<const std::byte*>(a.data()),
                              reinterpret_cast<const std::byte*>(b.data())};
  std::array<T, kCount> result{};
  const Destination destination{reinterpret_cast<std::byte*>(result.data())};
  reduce(reduction, sources, scaled, {&destination, 1}, kCount);
  return result;
}

TEST(Reduce, IntegersWrap) {
  const std::array<std::int32_t, 2> a = {std::numeric_limits<std::int32_t>::max(), 65536};
  const std::array<std::int32_t, 2> b = {1, 65536};
  EXPECT_EQ(reduce_pair({DataType::kInt32, ReduceOp::kSum}, a, b)[0],
            std::numeric_limits<std::int32_t>::min());
  EXPECT_EQ(reduce_pair({DataType::kInt32, ReduceOp::kProd}, a, b)[1], 0);
}

TEST(Reduce, AnAverageOfIntegersTruncatesTowardZero) {
  const std::array<std::int64_t, 3> a = {-7, 7, 1LL << 40};
  const std::array<std::int64_t, 3> b = {0, 0, 1};
  const Reduction average{.type = DataType::kInt64, .op = ReduceOp::kAvg, .divisor = 2};
  EXPECT_EQ(reduce_pair(average, a, b), (std::array<std::int64_t, 3>{-3, 3, 1LL << 39}));
}

TEST(Reduce, AnAverageOfBytesDividesByMoreThanAByteHolds) {
  const std::array<std::int8_t, 2> a = {100, -100};
  const std::array<std::int8_t, 2> b = {27, -28};
  Reduction average{.type = DataType::kInt8, .op = ReduceOp::kAvg, .divisor = 256};
  EXPECT_EQ(reduce_pair(average, a, b), (std::array<std::int8_t, 2>{0, 0}));
  average.divisor = 127;
  EXPECT_EQ(reduce_pair(average, a, b), (std::array<std::int8_t, 2>{1, -1}));
}

TEST(Reduce, ANanOperandOfMaxOrMinYieldsNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::array<float, 3> a = {nan, 1.0F, 2.0F};
  const std::array<float, 3> b = {1.0F, nan, 3.0F};
  for (const ReduceOp op : {ReduceOp::kMax, ReduceOp::kMin}) {
    const auto result = reduce_pair({DataType::kFloat32, op}, a, b);
    EXPECT_TRUE(std::isnan(result[0]));
    EXPECT_TRUE(std::isnan(result[1]));
    EXPECT_EQ(result[2], op == ReduceOp::kMax ? 3.0F : 2.0F);
  }
}

TEST(Reduce, NarrowFloatsAreRoundedOnceInAll) {
  // 256 + 1 is halfway to 258 in bfloat16 and would stay 256 if it were rounded; with another 1 in
  // float32 it is 258.
  const std::array<std::uint16_t, 3> values = {narrow<Bfloat16>(256), narrow<Bfloat16>(1),
                                               narrow<Bfloat16>(1)};
  std::array<const std::byte*, 3> sources{};
  for (std::size_t s = 0; s < 3; ++s) sources[s] = reinterpret_cast<const std::byte*>(&values[s]);
  std::uint16_t result = 0;
  const Destination destination{reinterpret_cast<std::byte*>(&result)};
  reduce({DataType::kBfloat16, ReduceOp::kSum}, sources, 0, {&destination, 1}, 1);
  EXPECT_EQ(widen<Bfloat16>(result), 258.0F);
}

TEST(Reduce, ScalesTheMarkedSourcesOnly) {
  Reduction scaled{.type = DataType::kFloat32, .op = ReduceOp::kPreMulSum};
  const float factor = 0.5F;
  std::memcpy(scaled.scalar, &factor, sizeof factor);
  const std::array<float, 2> a = {8.0F, 2.0F};
  const std::array<float, 2> b = {1.0F, 4.0F};
  EXPECT_EQ(reduce_pair(scaled, a, b, 0b01), (std::array<float, 2>{5.0F, 5.0F}));
  EXPECT_EQ(reduce_pair(scaled, a, b, 0b10), (std::array<float, 2>{8.5F, 4.0F}));
}

// Ranks that add the same must get the same, even where two NaNs meet.
TEST(Reduce, GivesTheSameBitsWhereverItsCachedDestinationLies) {
  constexpr std::size_t kCount = 700;
  for (const DataType type : {DataType::kFloat16, DataType::kFloat32, DataType::kFloat64}) {
    const std::size_t width = size_of(type);
    Bytes nans[2];
    for (std::size_t s = 0; s < 2; ++s)
      for (std::size_t i = 0; i < kCount * width; ++i)  // all ones but for the lowest payload bits
        nans[s].push_back(i % width == 0 ? static_cast<std::byte>(0xfc | s) : std::byte{0xff});
    const std::array<const std::byte*, 2> sources = {nans[0].data(), nans[1].data()};
    Reduction reduction;
    reduction.type = type;
    for (const KernelTable* target : every_target()) {
      Bytes first;
      for (std::size_t offset = 0; offset < kMaxOffset; offset += width) {
        alignas(64) std::byte memory[kCount * sizeof(double) + kMaxOffset];
        const Destination destination{memory + offset, Stores::kCached};
        const ReducePass pass{&reduction, sources.data(), 2, 0, &destination, 1, kCount};
        target->reduce[static_cast<int>(type)][static_cast<int>(ReduceOp::kSum)](pass);
        const Bytes result(memory + offset, memory + offset + kCount * width);
        if (offset == 0) first = result;
        ASSERT_EQ(result, first) << target->name << " at " << offset;
      }
    }
  }
}

TEST(Reduce, OfNoElementsTouchesNothing) {
  const std::array<const std::byte*, 2> sources = {nullptr, nullptr};
  const Destination destination{nullptr, Stores::kNonTemporal};
  reduce({}, sources, 0, {&destination, 1}, 0);
}

TEST(Reduce, OfOneSourceIsACopy) {
  std::vector<float> source(5000, std::numeric_limits<float>::signaling_NaN());
  std::vector<float> result(source.size());
  const std::byte* const from = reinterpret_cast<const std::byte*>(source.data());
  const Destination destination{reinterpret_cast<std::byte*>(result.data())};
  reduce({DataType::kFloat32, ReduceOp::kMax}, {&from, 1}, 0, {&destination, 1}, source.size());
  EXPECT_EQ(std::memcmp(source.data(), result.data(), source.size() * sizeof(float)), 0);
}

TEST(CopyBytes, CopiesToEveryDestinationAtAnyAlignment) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  ElementSource elements(seed);
  for (int repeat = 0; repeat < 300; ++repeat) {
    const std::size_t bytes = elements.pick(repeat % 3 == 0 ? 20000 : 300);
    Bytes memory(bytes + kMaxOffset);
    std::byte* const source = memory.data() + elements.pick(kMaxOffset);
    elements.fill(DataType::kUint8, source, bytes);
    for (const KernelTable* target : every_target()) {
      std::vector<Bytes> written(1 + elements.pick(kMaxDestinations),
                                 Bytes(bytes + 2 * kMaxOffset, kGuard));
      std::vector<Destination> destinations;
      for (Bytes& to : written) {
        const Stores stores = elements.pick_stores();
        destinations.push_back({to.data() + elements.pick(kMaxOffset), stores});
      }
      target->copy(source, destinations.data(), destinations.size(), bytes);
      for (std::size_t d = 0; d < written.size(); ++d) {
        Bytes expected(written[d].size(), kGuard);
        std::copy_n(source, bytes, expected.data() + (destinations[d].data - written[d].data()));
        ASSERT_EQ(written[d], expected) << target->name << " " << bytes << " bytes";
      }
    }
  }
}

TEST(KernelChoice, TakesTheNamedTargetAndElseTheFastest) {
  const auto targets = every_target();
  for (const KernelTable* target : targets) {
    EXPECT_EQ(&choose_kernels(target->name), target);
  }
  EXPECT_EQ(&choose_kernels("auto"), targets.back());
  EXPECT_EQ(&choose_kernels("mmx"), targets.back());
}

TEST(KernelChoice, ReadsTheSettingAsEveryoneElseDoes) {
  const auto chosen = [](const char* text) {
    return &kernels_for([text](const std::string& name) -> std::optional<std::string> {
      return name == "TUTTI_SIMD" ? std::optional<std::string>(text) : std::nullopt;
    });
  };
  EXPECT_EQ(chosen("scalar"), &kScalarKernels);
  EXPECT_EQ(chosen("Scalar"), &kScalarKernels);  // settings take any case
  const KernelTable* const fastest = every_target().back();
  EXPECT_EQ(chosen(""), fastest);
  EXPECT_EQ(chosen("AUTO"), fastest);
  EXPECT_EQ(chosen("mmx"), fastest);  // an error, but not this folder's to report
}

}  // namespace
}  // namespace tutti
