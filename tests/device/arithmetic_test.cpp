// The arithmetic of the device code against that of the host, bit for bit: every type and operator,
// whatever the numbers of operands and however they lie.
#include <array>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "src/device/block.hpp"
#include "src/device/combine.hpp"
#include "src/device/kernels.hpp"
#include "src/device/words.hpp"
#include "src/reduce/reference.hpp"
#include "tests/device/bits.hpp"

namespace tutti::device {
namespace {

/// A pass over memory that tests fill: sources and destinations at chosen distances from a multiple
/// of 16 bytes, and guards around the destinations.
class Trial {
 public:
  struct Shape {
    std::uint32_t sources = 1, destinations = 1;
    std::size_t elements = 0;
    bool aligned_alike = true;
    bool in_place = false;  ///< destination 0 is the last source
  };

  Trial(const Arithmetic& arithmetic, bool completes, const Shape& shape, std::mt19937_64& random)
      : arithmetic_(arithmetic), completes_(completes), shape_(shape) {
    const std::size_t element = size_of(arithmetic.type);
    bytes_ = shape.elements * element;
    const auto lead = [&] { return random() % (kVectorBytes / element) * element; };
    const std::size_t common = lead();
    for (std::uint32_t i = 0; i < shape.sources + shape.destinations; ++i) {
      leads_.push_back(kVectorBytes + (shape.aligned_alike ? common : lead()));
      buffers_.emplace_back(bytes_ + 4 * kVectorBytes);
      testing::fill_with_elements(arithmetic.type, random,
                                  {buffers_.back().data(), buffers_.back().size()});
    }
    scaled_ = random();
  }

  /// The bytes of all destinations with what lies around them.
  std::vector<std::byte> run_reference() {
    std::vector<std::vector<std::byte>> memory = buffers_;
    std::vector<const std::byte*> sources;
    std::vector<Destination> destinations;
    for (std::uint32_t s = 0; s < shape_.sources; ++s) sources.push_back(place(memory, s));
    for (std::uint32_t d = 0; d < shape_.destinations; ++d)
      destinations.push_back({place(memory, destination(d))});
    Reduction reduction;
    reduction.type = arithmetic_.type;
    reduction.op = arithmetic_.op;
    if (completes_ && arithmetic_.op == ReduceOp::kAvg && shape_.sources > 1)
      reduction.divisor = arithmetic_.divisor;
    std::memcpy(reduction.scalar, &arithmetic_.factor_bits, 8);
    reduce_reference(reduction, sources, scaled_, destinations, shape_.elements);
    return seen(memory);
  }

  /// `run(block, operands)` by some threads.
  template <class Run>
  std::vector<std::byte> run_device(std::uint32_t threads, const Run& run) {
    std::vector<std::vector<std::byte>> memory = buffers_;
    Operands operands = {};
    operands.source_count = shape_.sources;
    operands.destination_count = shape_.destinations;
    operands.scaled = scaled_;
    for (std::uint32_t s = 0; s < shape_.sources; ++s) operands.sources[s] = place(memory, s);
    for (std::uint32_t d = 0; d < shape_.destinations; ++d)
      operands.destinations[d] = place(memory, destination(d));
    Rendezvous rendezvous(threads);
    std::vector<std::thread> crew;
    for (std::uint32_t t = 1; t < threads; ++t)
      crew.emplace_back([&, t] { run(HostBlock(0, 1, t, rendezvous), operands); });
    run(HostBlock(0, 1, 0, rendezvous), operands);
    for (std::thread& thread : crew) thread.join();
    return seen(memory);
  }

  [[nodiscard]] std::string name() const {
    return fmt::format("{} {} over {} sources to {}, {} elements, aligned alike: {}, in place: {}",
                       name_of(arithmetic_.type), name_of(arithmetic_.op), shape_.sources,
                       shape_.destinations, shape_.elements, shape_.aligned_alike, shape_.in_place);
  }

 private:
  [[nodiscard]] std::uint32_t destination(std::uint32_t d) const {
    return d == 0 && shape_.in_place ? shape_.sources - 1 : shape_.sources + d;
  }
  std::byte* place(std::vector<std::vector<std::byte>>& memory, std::uint32_t buffer) const {
    return memory[buffer].data() + leads_[buffer];  // operator new aligns to 16 bytes
  }
  [[nodiscard]] std::vector<std::byte> seen(
      const std::vector<std::vector<std::byte>>& memory) const {
    std::vector<std::byte> all;
    for (const auto& buffer : memory)
      for (std::size_t i = 0; i < buffer.size(); ++i) all.push_back(buffer[i]);
    testing::unify_nans(arithmetic_.type, all);
    return all;
  }

  Arithmetic arithmetic_;
  bool completes_;
  Shape shape_;
  std::size_t bytes_ = 0;
  std::vector<std::size_t> leads_;
  std::vector<std::vector<std::byte>> buffers_;
  std::uint64_t scaled_ = 0;
};

class DeviceArithmetic : public ::testing::TestWithParam<int> {
 protected:
  /// body(trial, arithmetic, completes, elements) for every operator and many shapes.
  template <class Body>
  void for_trials(const Body& body) {
    const auto type = static_cast<DataType>(GetParam());
    const std::uint64_t seed = std::random_device{}();
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937_64 random(seed);
    for (int op = 0; op < kReduceOps; ++op)
      for (const std::uint32_t sources : {1U, 2U, 3U, 5U, 8U, 17U, 64U})
        for (const std::size_t elements : {0U, 1U, 7U, 16U, 33U, 150U}) {
          Arithmetic arithmetic;
          arithmetic.type = type;
          arithmetic.op = static_cast<ReduceOp>(op);
          arithmetic.divisor = static_cast<std::int32_t>(1 + random() % 64);
          std::array<std::byte, 8> factor;
          testing::fill_with_elements(type, random, factor);
          std::memcpy(&arithmetic.factor_bits, factor.data(), 8);
          const bool completes = random() % 2 == 0;
          Trial::Shape shape;
          shape.sources = sources;
          shape.destinations = static_cast<std::uint32_t>(1 + random() % kMaxDestinations);
          shape.elements = elements;
          shape.aligned_alike = random() % 2 == 0;
          shape.in_place = random() % 4 == 0;
          Trial trial(arithmetic, completes, shape, random);
          ASSERT_NO_FATAL_FAILURE(body(trial, arithmetic, completes, elements)) << trial.name();
        }
  }
};

TEST_P(DeviceArithmetic, IsThatOfTheHostInVectorsAndByElement) {
  for_trials([](Trial& trial, const Arithmetic& arithmetic, bool completes, std::size_t elements) {
    const auto wanted = trial.run_reference();
    for (const std::uint32_t threads : {1U, 3U})
      ASSERT_EQ(wanted, trial.run_device(threads, [&](const HostBlock& block,
                                                      const Operands& operands) {
        combine(block, arithmetic, completes, operands, elements);
      })) << trial.name();
  });
}

TEST_P(DeviceArithmetic, IsThatOfTheHostInWords) {
  for_trials([](Trial& trial, const Arithmetic& arithmetic, bool completes, std::size_t elements) {
    const auto run = [&](const HostBlock& block, const Operands& operands) {
      with_element(arithmetic.type, [&]<class E>(E) {
        combine_words<E>(
            block, arithmetic, completes, operands, elements,
            [&](std::uint32_t s, std::uint64_t, std::uint64_t begin, std::uint64_t bytes) {
              return Words<typename E::Stored>::load_word(operands.sources[s] + begin, bytes);
            });
      });
    };
    ASSERT_EQ(trial.run_reference(), trial.run_device(1, run)) << trial.name();
  });
}

TEST_P(DeviceArithmetic, OfALocalPassIsThatOfTheHostHoweverManyBlocksShareIt) {
  for_trials([](Trial& trial, const Arithmetic& arithmetic, bool completes, std::size_t elements) {
    const auto run = [&](const HostBlock&, const Operands& operands) {
      LocalPass pass;
      pass.operands = operands;
      pass.arithmetic = arithmetic;
      pass.elements = elements;
      pass.completes = completes ? 1 : 0;
      constexpr std::uint32_t kBlocks = 3;
      for (std::uint32_t b = 0; b < kBlocks; ++b) {
        Rendezvous alone(1);
        Operands shared;
        run_local_pass(HostBlock(b, kBlocks, 0, alone), shared, pass);
      }
    };
    ASSERT_EQ(trial.run_reference(), trial.run_device(1, run)) << trial.name();
  });
}

INSTANTIATE_TEST_SUITE_P(Types, DeviceArithmetic, ::testing::Range(0, kDataTypes),
                         [](const auto& info) {
                           return std::string(name_of(static_cast<DataType>(info.param)));
                         });

}  // namespace
}  // namespace tutti::device
