// Gradients in fewer bytes: two ranks sum them up as one bit a value. Each sum is coarse, but what
// one call rounds off is added in the next, so the sums of many calls are right.
//
//   c++ -std=c++20 07_compressed.cpp -ltutti && ./a.out
#include <cmath>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "tutti/compression.hpp"

namespace {

constexpr std::size_t kCount = 1 << 16;
constexpr int kSteps = 200;

/// Sums over all steps, relative to what they should be: the error of the first step, and of all.
struct Errors {
  double first = 0, all = 0;
};

/// What `rank` adds to element `i` in every step.
float gradient(int rank, std::size_t i) {
  return std::sin(static_cast<float>(i) * (rank == 0 ? 0.3F : 0.7F));
}

double error_of(const std::vector<double>& sums, int steps) {
  double off = 0, all = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    const double wanted = double{gradient(0, i)} + gradient(1, i);
    off += std::pow(sums[i] / steps - wanted, 2);
    all += wanted * wanted;
  }
  return std::sqrt(off / all);
}

tutti::Result<Errors> run(const tutti::Comm& comm) {
  auto one_bit = tutti::Compression::create("sign:errors=feedback");
  if (!one_bit) return one_bit.error();
  std::vector<float> mine(kCount), sum(kCount);
  std::vector<double> sums(kCount);
  for (std::size_t i = 0; i < kCount; ++i) mine[i] = gradient(comm.rank(), i);
  Errors errors;
  for (int step = 1; step <= kSteps; ++step) {
    const auto done = one_bit->all_reduce<float>(comm, mine, sum);
    if (!done) return done.error();
    for (std::size_t i = 0; i < kCount; ++i) sums[i] += sum[i];
    if (step == 1) errors.first = error_of(sums, step);
  }
  errors.all = error_of(sums, kSteps);
  return errors;
}

}  // namespace

int main() {
  auto comms = tutti::Comm::all(2);
  if (!comms) return std::fprintf(stderr, "%s\n", comms.error().what.c_str()), 1;
  std::vector<tutti::Result<Errors>> results(2, Errors{});
  std::thread other([&] { results[1] = run((*comms)[1]); });
  results[0] = run((*comms)[0]);
  other.join();
  for (const auto& result : results)
    if (!result) return std::fprintf(stderr, "%s\n", result.error().what.c_str()), 1;
  std::printf("one bit a value: error of the first sum %.0f %%, of %d sums %.1f %%\n",
              100 * results[0]->first, kSteps, 100 * results[0]->all);
  return results[0]->all < 0.1 * results[0]->first ? 0 : 1;
}
