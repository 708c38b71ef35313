// One timing loop for every library, so that peers differ in the library alone.
//
// Words: an *operation* is one collective on float32 buffers; a *sample* is the time of one
// operation on the slowest rank, in microseconds. Sends change before every operation: one float of
// each 64-byte line, so that no rank's cache still holds what a peer reads. Up to 8 KiB a sample is
// the mean of a batch of back-to-back operations, changes included (at most 128 lines); above that
// each operation is timed alone, after a barrier, and the changes are not in it.
//
// Ranks agree through a page of shared memory, not through the library under test, so the barrier
// costs every library the same. All ranks are on one machine, as processes or as threads of one.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

namespace peers {

[[noreturn]] inline void die(const std::string& why) {
  std::fprintf(stderr, "peers: %s\n", why.c_str());
  std::exit(1);
}

/// The value of an environment variable that run sets.
inline const char* need(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) die(std::string(name) + " is not set: start this by perf/peers/run");
  return value;
}

/// A page of the file of zeros that every rank maps; run makes two, one for Meeting and one for a
/// library's own use. Stays mapped.
inline void* shared_page(int number) {
  constexpr std::size_t kPageBytes = 4096;
  const int fd = ::open(need("PEERS_MEETING"), O_RDWR | O_CLOEXEC);
  if (fd < 0) die(std::string("cannot meet at ") + need("PEERS_MEETING"));
  void* page = ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                      static_cast<off_t>(kPageBytes) * number);
  if (page == MAP_FAILED) die("mmap failed");
  ::close(fd);
  return page;
}

/// A barrier and a number of each rank, in a shared page.
class Meeting {
 public:
  Meeting(int rank, int ranks, int page = 0)
      : rank_(rank), ranks_(ranks), page_(static_cast<Page*>(shared_page(page))) {
    if (ranks > kMostRanks) die("more ranks than can meet");
  }

  void barrier() {
    const std::uint32_t phase = page_->phase.load(std::memory_order_acquire);
    if (page_->arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == ranks_) {
      page_->arrived.store(0, std::memory_order_relaxed);
      page_->phase.store(phase + 1, std::memory_order_release);
      return;
    }
    for (int polls = 0; page_->phase.load(std::memory_order_acquire) == phase; ++polls) {
      if (polls > 200) ::sched_yield();
    }
  }

  double largest(double mine) {
    page_->numbers[rank_].value = mine;
    barrier();
    double largest = mine;
    for (int rank = 0; rank < ranks_; ++rank) {
      largest = std::max(largest, page_->numbers[rank].value);
    }
    barrier();  // nobody overwrites a number that another still reads
    return largest;
  }

 private:
  static constexpr int kMostRanks = 30;
  struct alignas(128) Number {
    double value;
  };
  struct Page {
    alignas(128) std::atomic<int> arrived;
    alignas(128) std::atomic<std::uint32_t> phase;
    Number numbers[kMostRanks];
  };
  static_assert(sizeof(Page) <= 4096);

  int rank_;
  int ranks_;
  Page* page_;
};

/// Up to so many bytes a sample is of operations back to back.
constexpr std::size_t kLargestBatched = 8192;

inline bool share_processors(int ranks) {
  cpu_set_t usable;
  return ::sched_getaffinity(0, sizeof usable, &usable) == 0 && CPU_COUNT(&usable) < ranks;
}

/// Gives each rank a processor of its own where there are enough, as Open MPI does by default: a
/// busy machine otherwise puts two ranks on one. Threads that the library has started already stay
/// free.
inline void bind_rank(int rank, int ranks) {
  cpu_set_t usable;
  if (::sched_getaffinity(0, sizeof usable, &usable) != 0 || CPU_COUNT(&usable) < ranks) return;
  for (int processor = 0, seen = 0; processor < CPU_SETSIZE; ++processor) {
    if (!CPU_ISSET(processor, &usable) || seen++ != rank) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    ::sched_setaffinity(0, sizeof one, &one);
  }
}

struct Arguments {
  std::string library;
  std::string collective;
  std::vector<std::size_t> sizes;  ///< bytes of the larger buffer
  double milliseconds = 100;       ///< for the samples of one size
  std::size_t fewest_samples = 9;  ///< however long they take
};

inline Arguments parse(int argc, char** argv) {
  if (argc != 6) die("usage: peer LIBRARY COLLECTIVE SIZE,SIZE,... MILLISECONDS SAMPLES");
  Arguments arguments{
      argv[1], argv[2], {}, std::atof(argv[4]), std::strtoull(argv[5], nullptr, 10)};
  for (const char* at = argv[3]; *at != 0;) {
    char* end = nullptr;
    arguments.sizes.push_back(std::strtoull(at, &end, 10));
    at = *end == ',' ? end + 1 : end;
  }
  return arguments;
}

/// Where buffers come from: ordinary memory, unless a library brings its own.
struct Memory {
  void* (*allocate)(std::size_t bytes) = std::malloc;
  void (*release)(void*) = std::free;
};

/// Floats of such memory, all of one value at first.
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Memory& memory, std::size_t size, float value)
      : floats_(static_cast<float*>(memory.allocate(size * sizeof(float))), memory.release),
        size_(size) {
    if (floats_ == nullptr) die("no memory for " + std::to_string(size * sizeof(float)) + " bytes");
    std::fill(begin(), end(), value);
  }

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] float* data() { return floats_.get(); }
  [[nodiscard]] const float* data() const { return floats_.get(); }
  [[nodiscard]] float* begin() { return data(); }
  [[nodiscard]] float* end() { return data() + size_; }
  float& operator[](std::size_t i) { return data()[i]; }
  const float& operator[](std::size_t i) const { return data()[i]; }

 private:
  std::unique_ptr<float, void (*)(void*)> floats_{nullptr, std::free};
  std::size_t size_ = 0;
};

/// Buffers of one size. `count` is elements of a block.
struct Message {
  Buffer send;
  Buffer recv;
  std::size_t count = 0;
};

inline bool holds_blocks(const std::string& collective) {
  return collective == "all_gather" || collective == "reduce_scatter" || collective == "all_to_all";
}

inline Message make_message(const std::string& collective, std::size_t bytes, int rank, int ranks,
                            const Memory& memory) {
  const std::size_t blocks = holds_blocks(collective) ? static_cast<std::size_t>(ranks) : 1;
  const std::size_t count = std::max<std::size_t>(1, bytes / sizeof(float) / blocks);
  const std::size_t send = collective == "all_gather" ? count : count * blocks;
  const std::size_t recv = collective == "reduce_scatter" ? count : count * blocks;
  return {Buffer(memory, send, static_cast<float>(rank + 1)), Buffer(memory, recv, 0), count};
}

/// What element `i` of the result is, when sends are as make_message left them. Beside the
/// collectives there is what the limits do: `copy` on this rank, `exchange` between two.
inline float expected(const std::string& collective, const Message& message, std::size_t i,
                      int rank, int ranks) {
  if (collective == "broadcast") return 1;
  if (collective == "copy") return static_cast<float>(rank + 1);
  if (collective == "exchange") return static_cast<float>(ranks - rank);
  if (collective == "all_reduce" || collective == "reduce_scatter") {
    return static_cast<float>(ranks) * static_cast<float>(ranks + 1) / 2;
  }
  return static_cast<float>(i / message.count + 1);
}

inline bool right(const std::string& collective, const Message& message, int rank, int ranks) {
  for (std::size_t i = 0; i < message.recv.size(); ++i) {
    if (message.recv[i] != expected(collective, message, i, rank, ranks)) return false;
  }
  return true;
}

inline void change(Buffer& values) {
  constexpr std::size_t kLine = 64 / sizeof(float);
  for (std::size_t i = 0; i < values.size(); i += kLine) values[i] = values[i] == 1 ? 2 : 1;
}

/// `Library` has rank(), ranks(), and run(collective, Message&), which broadcasts message.recv and
/// otherwise goes from send to recv.
template <class Library>
class Loop {
 public:
  Loop(Library& library, Arguments arguments, Memory memory = {})
      : library_(library),
        arguments_(std::move(arguments)),
        memory_(memory),
        meeting_(library.rank(), library.ranks()) {}

  void run() {
    bind_rank(library_.rank(), library_.ranks());
    for (const std::size_t bytes : arguments_.sizes) measure(bytes);
  }

 private:
  static constexpr double kBatchUs = 50;
  static constexpr std::size_t kMostSamples = 5000;

  void operate() { library_.run(arguments_.collective, message_); }

  /// What an operation reads on this rank.
  Buffer& source() { return arguments_.collective == "broadcast" ? message_.recv : message_.send; }

  double time_batch(std::size_t operations) {
    const bool changes_inside = operations > 1;
    if (!changes_inside) change(source());
    meeting_.barrier();
    const auto start = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < operations; ++i) {
      if (changes_inside) change(source());
      operate();
    }
    const std::chrono::duration<double, std::micro> elapsed =
        std::chrono::steady_clock::now() - start;
    return meeting_.largest(elapsed.count()) / static_cast<double>(operations);
  }

  void verify(std::size_t bytes) {
    if (arguments_.collective == "broadcast") {
      std::copy(message_.send.begin(), message_.send.end(), message_.recv.begin());
    }
    operate();
    if (!right(arguments_.collective, message_, library_.rank(), library_.ranks())) {
      die(arguments_.library + ": wrong result of " + arguments_.collective + " of " +
          std::to_string(bytes) + " bytes");
    }
  }

  void measure(std::size_t bytes) {
    message_ =
        make_message(arguments_.collective, bytes, library_.rank(), library_.ranks(), memory_);
    verify(bytes);
    double estimate = 0;
    for (int warmup = 0; warmup < 4; ++warmup) estimate = time_batch(1);
    std::size_t batch = 1;
    if (bytes <= kLargestBatched) {
      batch = static_cast<std::size_t>(std::ceil(kBatchUs / std::max(estimate, 0.05)));
      estimate = time_batch(batch);  // a lone operation pays for the barrier's end; correct for it
      batch =
          std::max<std::size_t>(2, static_cast<std::size_t>(kBatchUs / std::max(estimate, 0.05)));
    }
    std::vector<double> samples;
    double total_us = 0;
    while (samples.size() < arguments_.fewest_samples ||
           (total_us < arguments_.milliseconds * 1e3 && samples.size() < kMostSamples)) {
      samples.push_back(time_batch(batch));
      total_us += samples.back() * static_cast<double>(batch);
    }
    if (library_.rank() == 0) print(bytes, samples);
  }

  void print(std::size_t bytes, std::vector<double>& samples) {
    std::sort(samples.begin(), samples.end());
    std::printf(
        "{\"library\": \"%s\", \"collective\": \"%s\", \"ranks\": %d, \"bytes\": %zu, "
        "\"median_us\": %.4f, \"p10_us\": %.4f, \"p90_us\": %.4f, \"samples\": %zu}\n",
        arguments_.library.c_str(), arguments_.collective.c_str(), library_.ranks(), bytes,
        samples[samples.size() / 2], samples[samples.size() / 10], samples[samples.size() * 9 / 10],
        samples.size());
    std::fflush(stdout);
  }

  Library& library_;
  Arguments arguments_;
  Memory memory_;
  Meeting meeting_;
  Message message_{};
};

}  // namespace peers
