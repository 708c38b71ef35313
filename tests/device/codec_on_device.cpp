// Whether a GPU encodes and decodes every format bit for bit as the host does: for gradients, for
// random bit patterns with NaN and infinity, rounded to nearest and at random.
//
//   codec_on_device FATBIN
//
// A line a format. Exit 0: the same; 1: not, or there is no GPU. The CUDA driver in memory takes
// the kernels from this program, whatever the file.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <fmt/core.h>

#include "src/base/result.hpp"
#include "src/base/whole_file.hpp"
#include "src/codec/make_format.hpp"
#include "src/cuda/driver.hpp"
#include "src/cuda/fake/controls.hpp"
#include "tests/device/codec_kernels.hpp"

namespace tutti::testing_device {
namespace {

struct Case {
  const char* format;
  const char* kernel;
  FakeCudaKernel on_host;
};

#define TUTTI_CODEC_CASE(spec, name, ...)                                                         \
  {spec, "codec_" #name, [](unsigned blocks, unsigned block, void** arguments) {                  \
     encode_and_decode(__VA_ARGS__, *static_cast<const CodecWork*>(arguments[0]), block, blocks); \
   }},
const Case kCases[] = {TUTTI_CODEC_KERNELS(TUTTI_CODEC_CASE)};

void bring_kernels_to_fake_driver() {
  void* const library = ::dlopen(cuda::kDriverLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return;
  const auto add =
      reinterpret_cast<FakeCudaRegisterKernel>(::dlsym(library, "fake_cuda_register_kernel"));
  constexpr std::size_t kBytes[] = {sizeof(CodecWork)};
  for (const Case& each : kCases)
    if (add != nullptr) add(each.kernel, each.on_host, kBytes, 1);
}

/// Most values are small, a few are large; zeros of both signs; some whole blocks of zeros.
std::vector<float> gradient(std::size_t count, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = normal(random) * (i / 4096 % 3 == 1 ? 1e-30F : 1);
    if (random() % 50 == 0) values[i] *= 20;
    if (random() % 40 == 0 || i / 4096 % 5 == 3) values[i] = random() % 2 == 0 ? 0.0F : -0.0F;
  }
  return values;
}

/// Any bits; all of them finite in most blocks.
std::vector<float> any_bits(std::size_t count, std::mt19937& random) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (i / 4096 % 2 == 0 && !std::isfinite(values[i])) values[i] = 1;
  }
  return values;
}

/// Every NaN is as good as another: processors choose its bits.
bool are_same(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

class Checker {
 public:
  static Result<Checker> create(const char* file) {
    bring_kernels_to_fake_driver();
    TUTTI_ASSIGN(auto driver, cuda::Driver::open());
    TUTTI_ASSIGN(const std::string code, read_file(file, std::size_t{1} << 28U));
    TUTTI_ASSIGN(auto scope, driver->make_current(0));
    TUTTI_ASSIGN(auto module, cuda::Module::load(driver, 0, std::as_bytes(std::span(code))));
    TUTTI_ASSIGN(auto stream, cuda::OwnedStream::create(driver, 0));
    return Checker(std::move(driver), std::move(scope), std::move(module), std::move(stream));
  }

  /// Nothing, or how they differ.
  Result<std::string> difference(const Case& of, const std::vector<float>& values,
                                 const codec::Rounding& rounding) {
    TUTTI_ASSIGN(const auto format, codec::make_format(of.format));
    const std::size_t count = values.size(), bytes = format->bytes(count);
    std::vector<std::byte> expected(bytes), encoded(bytes);
    std::vector<float> expected_values(count), decoded(count);
    format->encode(values.data(), count, rounding, expected.data());
    if (!format->decode(expected.data(), count, expected_values.data()))
      return make_error(Code::kInternal, "the host refuses its own encoding");

    const std::size_t floats = count * sizeof(float);
    TUTTI_ASSIGN(const auto in, allocate(floats));
    TUTTI_ASSIGN(const auto out, allocate(bytes));
    TUTTI_ASSIGN(const auto back, allocate(floats));
    TUTTI_ASSIGN(const auto refused, allocate(sizeof(std::uint32_t)));
    std::uint32_t refuses = 0;
    CodecWork work{static_cast<const float*>(in.data()),
                   static_cast<std::byte*>(out.data()),
                   static_cast<float*>(back.data()),
                   static_cast<std::uint32_t*>(refused.data()),
                   count,
                   format->traits().block,
                   rounding};
    TUTTI_TRY(driver_->copy_async(in.data(), values.data(), floats, stream_.get()));
    TUTTI_TRY(driver_->copy_async(refused.data(), &refuses, sizeof refuses, stream_.get()));
    TUTTI_ASSIGN(const auto kernel, module_.function(of.kernel));
    void* arguments[] = {&work};
    TUTTI_TRY(
        driver_->launch(kernel, {.blocks = 64, .threads = kThreads}, stream_.get(), arguments));
    TUTTI_TRY(driver_->copy_async(encoded.data(), out.data(), bytes, stream_.get()));
    TUTTI_TRY(driver_->copy_async(decoded.data(), back.data(), floats, stream_.get()));
    TUTTI_TRY(driver_->copy_async(&refuses, refused.data(), sizeof refuses, stream_.get()));
    TUTTI_TRY(driver_->synchronize(stream_.get()));

    if (refuses != 0) return std::string("the device refuses its own encoding");
    const auto byte = std::ranges::mismatch(encoded, expected).in1 - encoded.begin();
    if (static_cast<std::size_t>(byte) != bytes) return fmt::format("byte {} of {}", byte, bytes);
    for (std::size_t i = 0; i < count; ++i)
      if (!are_same(decoded[i], expected_values[i]))
        return fmt::format("value {}: {} and not {}", i, decoded[i], expected_values[i]);
    return std::string();
  }

 private:
  static constexpr unsigned kThreads = 32;

  Checker(cuda::SharedDriver driver, cuda::ContextScope scope, cuda::Module module,
          cuda::OwnedStream stream)
      : driver_(std::move(driver)),
        scope_(std::move(scope)),
        module_(std::move(module)),
        stream_(std::move(stream)) {}
  Result<cuda::DeviceMemory> allocate(std::size_t bytes) const {
    return cuda::DeviceMemory::allocate(driver_, 0, bytes);
  }

  cuda::SharedDriver driver_;
  cuda::ContextScope scope_;
  cuda::Module module_;
  cuda::OwnedStream stream_;
};

Result<bool> check_all(const char* file) {
  TUTTI_ASSIGN(Checker checker, Checker::create(file));
  bool good = true;
  for (const Case& each : kCases) {
    std::mt19937 random(1);
    std::size_t checked = 0;
    std::string different;
    for (const std::size_t count : {std::size_t{1}, std::size_t{4097}, std::size_t{300007}}) {
      for (const bool random_bits : {false, true}) {
        const std::vector<float> values =
            random_bits ? any_bits(count, random) : gradient(count, random);
        for (const bool random_rounding : {false, true}) {
          TUTTI_ASSIGN(const std::string found,
                       checker.difference(each, values, {random_rounding, 0x123456789abcdef, 64}));
          if (different.empty() && !found.empty())
            different = fmt::format("{} {} values, {}: {}", count, random_bits ? "any" : "gradient",
                                    random_rounding ? "rounded at random" : "to nearest", found);
          checked += count;
        }
      }
    }
    fmt::print("{:<28} {} values, {}\n", each.format, checked,
               different.empty() ? "the same bits" : "DIFFERENT: " + different);
    good = good && different.empty();
  }
  return good;
}

}  // namespace
}  // namespace tutti::testing_device

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: codec_on_device FATBIN\n", stderr);
    return 2;
  }
  const auto same = tutti::testing_device::check_all(argv[1]);
  if (!same) fmt::print(stderr, "{}\n", same.error().what);
  return same && *same ? 0 : 1;
}
