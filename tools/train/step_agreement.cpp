#include "tools/train/step_agreement.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <span>
#include <vector>

#include "src/base/result.hpp"

namespace tutti::trainer {

Result<StepAgreement> agree_on_step(Comm& comm, const StepNews& mine) {
  constexpr std::size_t kNumbers = 4;
  const std::array<double, kNumbers> own = {mine.loss, mine.stops ? 1.0 : 0.0, mine.seconds,
                                            mine.owed};
  std::vector<double> all(kNumbers * static_cast<std::size_t>(comm.size()));
  TUTTI_TRY(comm.all_gather<double>(own, all));
  StepAgreement agreed{.seconds = all[2]};
  for (Rank rank = 0; rank < comm.size(); ++rank) {
    const double* const numbers = all.data() + kNumbers * static_cast<std::size_t>(rank);
    agreed.loss += numbers[0];
    agreed.stops = agreed.stops || numbers[1] != 0;
    agreed.owed = std::hypot(agreed.owed, numbers[3]);
    if (!std::isfinite(numbers[0]) && agreed.first_bad_loss == kNoRank)
      agreed.first_bad_loss = rank;
  }
  return agreed;
}

Status add_up(Comm& comm, std::span<double> values) {
  return comm.all_reduce<double>(values, values);
}

Status from_rank_0(Comm& comm, std::span<std::uint64_t> values) {
  return comm.broadcast<std::uint64_t>(values, 0);
}

Result<std::optional<double>> seconds_per_byte(Comm& comm) {
  constexpr std::size_t kElements = std::size_t{1} << 20U;
  constexpr int kRounds = 6;  // of which the first ones are slow
  const int ranks = comm.size();
  if (ranks == 1) return std::optional<double>();
  std::vector<float> numbers(kElements);
  double least = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    TUTTI_TRY(comm.all_reduce<float>(numbers, numbers));
    least = std::min(
        least, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  const double sent = 2.0 * (ranks - 1) / ranks * static_cast<double>(kElements * sizeof(float));
  return std::optional(least / sent);
}

}  // namespace tutti::trainer
