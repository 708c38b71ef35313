// All-reduce between processes that a launcher started, with Tutti's C++ API.
//
//   tutti run -n 4 -- ./03_launched        (or mpirun, srun, torchrun)
#include <cstdio>
#include <numeric>
#include <vector>

#include "tutti/communicator.hpp"

int main() {
  auto joined = tutti::Comm::from_environment();
  if (!joined) {
    std::fprintf(stderr, "%s\n", joined.error().what.c_str());
    return 1;
  }
  tutti::Comm comm = std::move(*joined);

  std::vector<double> mine(1 << 16);
  std::iota(mine.begin(), mine.end(), comm.rank());
  std::vector<double> sum(mine.size());
  if (const tutti::Status done = comm.all_reduce<double>(mine, sum); !done) {
    std::fprintf(stderr, "%s\n", done.error().what.c_str());
    return 1;
  }

  const int n = comm.size();
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < sum.size(); ++i) {
    wrong += sum[i] != n * static_cast<double>(i) + n * (n - 1) / 2.0 ? 1 : 0;
  }
  std::printf("rank %d of %d: %zu elements, %zu wrong\n", comm.rank(), n, sum.size(), wrong);
  return wrong == 0 ? 0 : 1;
}
