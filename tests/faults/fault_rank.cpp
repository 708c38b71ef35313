// A rank that does as it is told: reads commands from standard input, a line each, and answers each
// with a line `COMMAND RESULT MILLISECONDS TEXT`. RESULT is the ncclResult_t of the call, -1 where
// data came out wrong, or -3 where this program itself had no memory; TEXT is what ncclGetLastError
// says after a failure.
//
//   id                        TEXT is a fresh unique id in hexadecimal digits
//   init ID RANKS RANK        makes the communicator
//   reduce COUNT              one checked all-reduce of COUNT ints
//   broadcast COUNT           one broadcast from rank 0
//   collect COUNT             one reduce of COUNT ints to rank 0
//   loop COUNT                all-reduces until one fails; says `looping` when the first is over
//   moves COUNT               the same of collectives that move data: broadcast from and gather to
//                             rank 0, and all-gather, COUNT ints being the larger buffer
//   fill VALUE                the receive buffers of these operations
//   holds VALUE               whether they still do
//   receive PEER COUNT        receives ints from this rank
//   play CALL:COUNT:RANK,...  these calls one after another, of COUNT ints with this root or peer,
//                             until one fails, and then `destroy`; CALL is reduce, broadcast,
//                             collect, allgather, reducescatter, gather, scatter, alltoall,
//                             alltoallv, shift (in a group: a send to the next rank but RANK, a
//                             receive from there), send or receive. TEXT of a failure begins with
//                             the call's index
//   shrink RANK,RANK...       replaces the communicator by one without these
//   churn ROUNDS              makes a communicator of one and aborts it, so often
//   begin ID RANKS RANK       the same as init, without waiting for it
//   initmany ID,ID... RANKS RANK   ncclCommInitRankScalable
//   destroy, abort            ends the communicator
//   failed                    TEXT is the rank that tuttiCommFailedRank blames
//   census                    TEXT is `DESCRIPTORS THREADS what the descriptors are`
//   memory                    TEXT is `MAPPINGS KILOBYTES`: lines of /proc/self/maps, and resident
//                             memory, shared memory included
//   limit files|memory MORE   allows that many descriptors or bytes beyond those in use
//   inject CALL NUMBER ERROR  under injector.c: makes that call of the library fail, in another
//                             thread or in init, reduce, collect or loop
//   struck                    TEXT is how many calls failed since; none does from now on
//   exit                      ends the process without ending the communicator
//
// Buffers are ordinary memory, or with FAULT_RANK_MEMORY=mapped from ncclMemAlloc.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <new>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/resource.h>

#include "nccl.h"
#include "tutti/tutti.h"

namespace {

namespace fs = std::filesystem;

constexpr int kWrongData = -1;
constexpr int kOwnMemory = -3;

template <class Function>
Function* of_injector(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

void spare_this_thread(bool whether) {
  static auto* const spare = of_injector<void(int)>("fault_spare");
  if (spare != nullptr) spare(whether ? 1 : 0);
}

/// Faults strike this thread only in such calls, not in what this program does around them.
template <class Call>
ncclResult_t exposed(Call call) {
  spare_this_thread(false);
  const ncclResult_t result = call();
  spare_this_thread(true);
  return result;
}

struct Outcome {
  int result = ncclSuccess;
  std::string text;
};

int input(int rank, std::size_t i) { return 1000 * (rank + 1) + static_cast<int>(i % 97); }

int expected_sum(int ranks, std::size_t i) {
  return 1000 * ranks * (ranks + 1) / 2 + ranks * static_cast<int>(i % 97);
}

std::string to_hex(const ncclUniqueId& id) {
  std::string text;
  for (const char c : id.internal) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    text += kDigits[static_cast<unsigned char>(c) >> 4];
    text += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return text;
}

ncclUniqueId from_hex(const std::string& text) {
  ncclUniqueId id{};
  for (std::size_t i = 0; i < sizeof id.internal && 2 * i + 2 <= text.size(); ++i)
    id.internal[i] = static_cast<char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  return id;
}

// The limit under which `more` descriptors can still be opened: descriptors get the lowest number
// that is free.
rlim_t limit_of_files(rlim_t more) {
  int number = 0;
  while (fcntl(number, F_GETFD) != -1 || more-- > 0) ++number;
  return number;
}

rlim_t memory_in_use() {
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * 4096;
}

std::size_t memory_resident() {
  std::size_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * 4096;
}

/// An allocator of either.
template <class T>
struct Memory {
  using value_type = T;
  Memory() = default;
  template <class U>
  explicit Memory(const Memory<U>&) {}
  static bool mapped() {
    const char* const wanted = std::getenv("FAULT_RANK_MEMORY");
    return wanted != nullptr && std::string_view(wanted) == "mapped";
  }
  T* allocate(std::size_t count) {
    if (!mapped()) return std::allocator<T>().allocate(count);
    void* memory = nullptr;
    if (ncclMemAlloc(&memory, count * sizeof(T)) != ncclSuccess) throw std::bad_alloc();
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, std::size_t count) {
    if (mapped())
      ncclMemFree(memory);
    else
      std::allocator<T>().deallocate(memory, count);
  }
  friend bool operator==(const Memory&, const Memory&) = default;
};
using Ints = std::vector<int, Memory<int>>;

class FaultRank {
 public:
  Outcome obey(const std::string& command, std::istringstream& arguments) {
    if (command == "id") return id();
    if (command == "init") return init(arguments);
    if (command == "reduce") return reduce(arguments);
    if (command == "broadcast") return broadcast(arguments);
    if (command == "collect") return collect(arguments);
    if (command == "loop") return loop(arguments);
    if (command == "moves") return moves(arguments);
    if (command == "fill") return fill(arguments);
    if (command == "holds") return holds(arguments);
    if (command == "receive") return receive(arguments);
    if (command == "play") return play(arguments);
    if (command == "shrink") return shrink(arguments);
    if (command == "churn") return churn(arguments);
    if (command == "begin") return begin(arguments);
    if (command == "initmany") return init_many(arguments);
    if (command == "destroy") return report(ncclCommDestroy(std::exchange(comm_, nullptr)));
    if (command == "abort") return report(ncclCommAbort(std::exchange(comm_, nullptr)));
    if (command == "failed") return failed();
    if (command == "census") return census();
    if (command == "memory") return memory();
    if (command == "limit") return limit(arguments);
    if (command == "inject") return inject(arguments);
    if (command == "struck") return struck();
    return {kWrongData, "there is no such command"};
  }

 private:
  [[nodiscard]] Outcome report(ncclResult_t result) const {
    if (result == ncclSuccess) return {};
    std::string text = ncclGetLastError(comm_);
    std::ranges::replace(text, '\n', ' ');
    return {result, text};
  }

  [[nodiscard]] Outcome id() const {
    ncclUniqueId id;
    const ncclResult_t result = ncclGetUniqueId(&id);
    return result == ncclSuccess ? Outcome{result, to_hex(id)} : report(result);
  }

  Outcome init(std::istringstream& arguments) {
    std::string id;
    int ranks = 0, rank = 0;
    arguments >> id >> ranks >> rank;
    const ncclUniqueId where = from_hex(id);
    return joined(exposed([&] { return ncclCommInitRank(&comm_, ranks, where, rank); }));
  }

  Outcome begin(std::istringstream& arguments) {
    std::string id;
    int ranks = 0, rank = 0;
    arguments >> id >> ranks >> rank;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    return report(ncclCommInitRankConfig(&comm_, ranks, from_hex(id), rank, &config));
  }

  Outcome init_many(std::istringstream& arguments) {
    std::string list;
    int ranks = 0, rank = 0;
    arguments >> list >> ranks >> rank;
    std::vector<ncclUniqueId> ids;
    std::istringstream texts(list);
    for (std::string text; std::getline(texts, text, ',');) ids.push_back(from_hex(text));
    return joined(ncclCommInitRankScalable(&comm_, ranks, rank, static_cast<int>(ids.size()),
                                           ids.data(), nullptr));
  }

  Outcome churn(std::istringstream& arguments) {
    int rounds = 0;
    arguments >> rounds;
    for (int round = 0; round < rounds; ++round) {
      ncclUniqueId id;
      ncclComm_t comm = nullptr;
      ncclResult_t result = ncclGetUniqueId(&id);
      if (result == ncclSuccess) result = ncclCommInitRank(&comm, 1, id, 0);
      if (result == ncclSuccess) result = ncclCommAbort(comm);
      if (result != ncclSuccess) return report(result);
    }
    return {};
  }

  Outcome fill(std::istringstream& arguments) {
    int value = 0;
    arguments >> value;
    for (auto& out : out_) std::ranges::fill(out, value);
    return {};
  }

  Outcome holds(std::istringstream& arguments) {
    int value = 0;
    arguments >> value;
    std::size_t others = 0;
    for (const auto& out : out_) others += out.size() - std::ranges::count(out, value);
    return others == 0 ? Outcome{} : Outcome{kWrongData, std::to_string(others) + " do not"};
  }

  Outcome receive(std::istringstream& arguments) {
    int peer = 0;
    std::size_t count = 0;
    arguments >> peer >> count;
    prepare(count);
    return report(ncclRecv(out_[0].data(), count, ncclInt, peer, comm_, nullptr));
  }

  Outcome play(std::istringstream& arguments) {
    int index = 0;
    for (std::string text; std::getline(arguments >> std::ws, text, ','); ++index) {
      std::ranges::replace(text, ':', ' ');
      std::istringstream words(text);
      std::string call;
      std::size_t count = 0;
      int rank = 0;
      words >> call >> count >> rank;
      const ncclResult_t result = make(call, count, rank);
      if (result == ncclSuccess) continue;
      Outcome failed = report(result);
      failed.text = std::to_string(index) + " " + failed.text;
      ncclCommAbort(std::exchange(comm_, nullptr));
      return failed;
    }
    return report(ncclCommDestroy(std::exchange(comm_, nullptr)));
  }

  ncclResult_t make(const std::string& call, std::size_t count, int rank) {
    prepare(count * static_cast<std::size_t>(ranks_));
    const int* const in = in_.data();
    int* const out = out_[0].data();
    const auto peer = [&](int distance) { return ((rank_ + distance) % ranks_ + ranks_) % ranks_; };
    if (call == "reduce") return ncclAllReduce(in, out, count, ncclInt, ncclSum, comm_, nullptr);
    if (call == "broadcast") return ncclBroadcast(in, out, count, ncclInt, rank, comm_, nullptr);
    if (call == "collect")
      return ncclReduce(in, out, count, ncclInt, ncclSum, rank, comm_, nullptr);
    if (call == "allgather") return ncclAllGather(in, out, count, ncclInt, comm_, nullptr);
    if (call == "reducescatter")
      return ncclReduceScatter(in, out, count, ncclInt, ncclSum, comm_, nullptr);
    if (call == "gather") return ncclGather(in, out, count, ncclInt, rank, comm_, nullptr);
    if (call == "scatter") return ncclScatter(in, out, count, ncclInt, rank, comm_, nullptr);
    if (call == "alltoall") return ncclAlltoAll(in, out, count, ncclInt, comm_, nullptr);
    if (call == "send") return ncclSend(in, count, ncclInt, rank, comm_, nullptr);
    if (call == "receive") return ncclRecv(out, count, ncclInt, rank, comm_, nullptr);
    if (call == "shift") {
      ncclGroupStart();
      ncclSend(in, count, ncclInt, peer(1 + rank), comm_, nullptr);
      ncclRecv(out, count, ncclInt, peer(-1 - rank), comm_, nullptr);
      return ncclGroupEnd();
    }
    if (call == "alltoallv") {
      const std::vector<std::size_t> counts(ranks_, count);
      std::vector<std::size_t> displacements;
      for (int r = 0; r < ranks_; ++r) displacements.push_back(count * static_cast<std::size_t>(r));
      return tuttiAllToAllv(in, counts.data(), displacements.data(), out, counts.data(),
                            displacements.data(), ncclInt, comm_, nullptr);
    }
    return ncclInvalidArgument;
  }

  Outcome shrink(std::istringstream& arguments) {
    std::vector<int> excluded;
    for (std::string rank; std::getline(arguments >> std::ws, rank, ',');)
      excluded.push_back(std::stoi(rank));
    ncclComm_t survivors = nullptr;
    const ncclResult_t result =
        ncclCommShrink(comm_, excluded.data(), static_cast<int>(excluded.size()), &survivors,
                       nullptr, NCCL_SHRINK_ABORT);
    if (result != ncclSuccess) return report(result);
    ncclCommAbort(std::exchange(comm_, survivors));
    return joined(result);
  }

  Outcome joined(ncclResult_t result) {
    if (result == ncclSuccess) {
      ncclCommCount(comm_, &ranks_);
      ncclCommUserRank(comm_, &rank_);
    }
    return report(result);
  }

  void prepare(std::size_t count) {
    in_.resize(count);
    for (std::size_t i = 0; i < count; ++i) in_[i] = input(rank_, i);
    for (auto& out : out_) out.assign(count, 0);
  }

  [[nodiscard]] Outcome check(const Ints& out) const {
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (out[i] == expected_sum(ranks_, i)) continue;
      return {kWrongData, "element " + std::to_string(i) + " is " + std::to_string(out[i]) +
                              ", not " + std::to_string(expected_sum(ranks_, i))};
    }
    return {};
  }

  ncclResult_t all_reduce(Ints& out) {
    return exposed([&] {
      return ncclAllReduce(in_.data(), out.data(), in_.size(), ncclInt, ncclSum, comm_, nullptr);
    });
  }

  Outcome reduce(std::istringstream& arguments) {
    std::size_t count = 0;
    arguments >> count;
    prepare(count);
    const ncclResult_t result = all_reduce(out_[0]);
    return result == ncclSuccess ? check(out_[0]) : report(result);
  }

  Outcome broadcast(std::istringstream& arguments) {
    std::size_t count = 0;
    arguments >> count;
    prepare(count);
    return report(ncclBroadcast(in_.data(), out_[0].data(), count, ncclInt, 0, comm_, nullptr));
  }

  Outcome collect(std::istringstream& arguments) {
    std::size_t count = 0;
    arguments >> count;
    prepare(count);
    return report(exposed([&] {
      return ncclReduce(in_.data(), out_[0].data(), count, ncclInt, ncclSum, 0, comm_, nullptr);
    }));
  }

  // Checks the first result and the last, so that the rank is nearly always inside an operation.
  Outcome loop(std::istringstream& arguments) {
    if (Outcome first = reduce(arguments); first.result != ncclSuccess) return first;
    std::cout << "looping" << std::endl;
    for (std::size_t round = 1;; ++round) {
      const ncclResult_t result = all_reduce(out_[round % 2]);
      if (result == ncclSuccess) continue;
      Outcome last = check(out_[(round - 1) % 2]);
      return last.result == ncclSuccess ? report(result) : last;
    }
  }

  /// One of each; the first failure ends it.
  ncclResult_t move(Ints& out) {
    const std::size_t block = in_.size() / static_cast<std::size_t>(ranks_);
    ncclResult_t result = ncclAllGather(in_.data(), out.data(), block, ncclInt, comm_, nullptr);
    if (result == ncclSuccess)
      result = ncclGather(in_.data(), out.data(), block, ncclInt, 0, comm_, nullptr);
    if (result == ncclSuccess)
      result = ncclBroadcast(in_.data(), out.data(), in_.size(), ncclInt, 0, comm_, nullptr);
    return result;
  }

  // Checks the broadcast of the first round, so that the rank is nearly always inside an operation.
  Outcome moves(std::istringstream& arguments) {
    std::size_t count = 0;
    arguments >> count;
    prepare(count);
    ncclResult_t result = move(out_[0]);
    for (std::size_t i = 0; result == ncclSuccess && i < count; ++i)
      if (out_[0][i] != input(0, i))
        return {kWrongData, "element " + std::to_string(i) + " is " + std::to_string(out_[0][i])};
    std::cout << "looping" << std::endl;
    for (std::size_t round = 1; result == ncclSuccess; ++round) result = move(out_[round % 2]);
    return report(result);
  }

  [[nodiscard]] Outcome failed() const {
    int rank = -1;
    const ncclResult_t result = tuttiCommFailedRank(comm_, &rank);
    return {result, std::to_string(rank)};
  }

  static Outcome census() {
    int descriptors = 0;
    std::string what;
    for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
      std::error_code gone;  // the listing's own descriptor is
      what += " " + fs::read_symlink(entry.path(), gone).string();
      ++descriptors;
    }
    const fs::directory_iterator tasks("/proc/self/task");
    const auto threads = std::distance(fs::begin(tasks), fs::end(tasks));
    return {ncclSuccess, std::to_string(descriptors) + " " + std::to_string(threads) + what};
  }

  static Outcome memory() {
    std::ifstream maps("/proc/self/maps");
    const auto lines = std::count(std::istreambuf_iterator<char>(maps), {}, '\n');
    return {ncclSuccess, std::to_string(lines) + " " + std::to_string(memory_resident() >> 10)};
  }

  static Outcome limit(std::istringstream& arguments) {
    std::string what;
    rlim_t more = 0;
    arguments >> what >> more;
    const rlim_t most = what == "files" ? limit_of_files(more) : memory_in_use() + more;
    const rlimit limits{most, most};
    const bool set = setrlimit(what == "files" ? RLIMIT_NOFILE : RLIMIT_AS, &limits) == 0;
    return {set ? ncclSuccess : kWrongData, std::to_string(most)};
  }

  static Outcome inject(std::istringstream& arguments) {
    std::string call;
    int number = 0, error = 0;
    arguments >> call >> number >> error;
    auto* const arm = of_injector<void(const char*, int, int)>("fault_arm");
    if (arm == nullptr) return {kWrongData, "the injector is not loaded"};
    arm(call.c_str(), number, error);
    return {};
  }

  static Outcome struck() {
    auto* const tell = of_injector<int()>("fault_struck");
    if (tell == nullptr) return {kWrongData, "the injector is not loaded"};
    return {ncclSuccess, std::to_string(tell())};
  }

  ncclComm_t comm_ = nullptr;
  int ranks_ = 0, rank_ = 0;
  Ints in_, out_[2];
};

}  // namespace

int main() {
  spare_this_thread(true);
  FaultRank rank;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream arguments(line);
    std::string command;
    arguments >> command;
    if (command == "exit") return 0;
    const auto begin = std::chrono::steady_clock::now();
    Outcome outcome;
    try {
      outcome = rank.obey(command, arguments);
    } catch (const std::bad_alloc&) {
      outcome = {kOwnMemory, "no memory"};
    }
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    std::cout << command << ' ' << outcome.result << ' ' << took.count() << ' ' << outcome.text
              << std::endl;
  }
  return 1;  // the test has gone
}
