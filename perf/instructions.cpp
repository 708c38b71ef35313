// What perf/check_instructions counts: all-reduces through the C API by one thread that drives all
// ranks, so that it waits for nobody and every run executes the same instructions.
//
//   instructions CASE OPERATIONS
//
// makes OPERATIONS calls of the case uncounted, for whatever the first calls set up, then as many
// inside count_this(), whose name callgrind is told.
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "nccl.h"
#include "perf/ranks.hpp"

namespace {

using perf::check;
using perf::Ranks;

[[noreturn]] void die(const std::string& why) {
  std::fprintf(stderr, "instructions: %s\n", why.c_str());
  std::exit(2);
}

struct Case {
  std::string_view name;
  std::size_t ranks;
  std::size_t bytes;
  void (*operate)(Ranks&, std::size_t operation);
};

constexpr Case kCases[] = {
    // Like the last call of its communicator, outside a group.
    {"lone_8B_1_rank", 1, 8, [](Ranks& ranks, std::size_t) { ranks.call(0, ncclFloat32, 2); }},
    // As PyTorch calls.
    {"group_of_one_8B_1_rank", 1, 8,
     [](Ranks& ranks, std::size_t) { ranks.call_all(ncclFloat32, 2); }},
    {"group_8B_2_ranks", 2, 8, [](Ranks& ranks, std::size_t) { ranks.call_all(ncclFloat32, 2); }},
    // What a rank does for each of its peers.
    {"group_8B_16_ranks", 16, 8, [](Ranks& ranks, std::size_t) { ranks.call_all(ncclFloat32, 2); }},
    {"group_4K_2_ranks", 2, 4096,
     [](Ranks& ranks, std::size_t) { ranks.call_all(ncclFloat32, 1024); }},
    // Never like the last call, so that each looks for its plan.
    {"alternating_8B_2_ranks", 2, 8,
     [](Ranks& ranks, std::size_t operation) {
       const bool floats = operation % 2 == 0;
       ranks.call_all(floats ? ncclFloat32 : ncclFloat64, floats ? 2 : 1);
     }},
};

const Case& find_case(std::string_view name) {
  std::string names;
  for (const Case& one : kCases) {
    if (one.name == name) return one;
    names += " " + std::string(one.name);
  }
  die("no case `" + std::string(name) + "`; there are" + names);
}

void operate(const Case& one, Ranks& ranks, std::size_t operations) {
  for (std::size_t i = 0; i < operations; ++i) one.operate(ranks, i);
}

}  // namespace

extern "C" {
/// Callgrind counts from its entry to its return (--toggle-collect), so it must stay a function.
[[gnu::noinline, gnu::used]] void count_this(const void* one, void* ranks, std::size_t operations) {
  operate(*static_cast<const Case*>(one), *static_cast<Ranks*>(ranks), operations);
}
}

int main(int argc, char** argv) {
  if (argc == 2 && argv[1] == std::string_view("--list")) {
    for (const Case& one : kCases) std::printf("%s\n", one.name.data());
    return 0;
  }
  const auto operations = argc == 3 ? std::strtoull(argv[2], nullptr, 10) : 0;
  if (operations == 0) die("usage: instructions CASE OPERATIONS, or instructions --list");
  const Case& one = find_case(argv[1]);
  Ranks ranks(one.ranks, one.bytes);
  operate(one, ranks, operations);
  count_this(&one, &ranks, operations);
}
