// Messages: every rank passes a value to its right neighbour, on a stream beside the caller.
//
//   ./04_ring
#include <array>
#include <cstdio>

#include "tutti/communicator.hpp"
#include "tutti/stream.hpp"

namespace {

constexpr int kRanks = 4;

tutti::Status pass_right(std::vector<tutti::Comm>& comms, std::array<int, kRanks>& values) {
  auto stream = tutti::Stream::create();
  if (!stream) return stream.error();
  std::array<int, kRanks> received{};

  tutti::Group group;  // sends and receives that depend on each other go into one group
  for (tutti::Comm& comm : comms) {
    const int rank = comm.rank();
    const int right = (rank + 1) % kRanks;
    const int left = (rank + kRanks - 1) % kRanks;
    // An error inside the group is returned again by end().
    (void)comm.send<int>({&values[rank], 1}, right, &*stream);
    (void)comm.recv<int>({&received[rank], 1}, left, &*stream);
  }
  if (auto ended = group.end(); !ended) return ended;
  if (auto done = stream->synchronize(); !done) return done;
  values = received;
  return tutti::ok_status();
}

}  // namespace

int main() {
  auto comms = tutti::Comm::all(kRanks);
  if (!comms) {
    std::fprintf(stderr, "%s\n", comms.error().what.c_str());
    return 1;
  }
  std::array<int, kRanks> values = {0, 10, 20, 30};
  for (int step = 0; step < kRanks; ++step) {
    if (const auto passed = pass_right(*comms, values); !passed) {
      std::fprintf(stderr, "%s\n", passed.error().what.c_str());
      return 1;
    }
    std::printf("after step %d: %d %d %d %d\n", step + 1, values[0], values[1], values[2],
                values[3]);
  }
  return values == std::array<int, kRanks>{0, 10, 20, 30} ? 0 : 1;
}
