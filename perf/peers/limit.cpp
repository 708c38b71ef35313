// What the machine can do, measured by the same loop as the libraries: copies from a rank's send to
// its receive buffer, all ranks at once, and the time of one hop between two ranks.
//
// LIBRARY says how: `cached` copies with ordinary stores, `streaming` with such as bypass the
// caches. The collective is `copy`, or `exchange` of 8 bytes between two ranks: a round trip
// through a cache line of each. Compiled for the machine it runs on.
//
// Copies do not wait for each other. Where ranks share processors a lone one therefore ends with a
// barrier, or the time that a rank waits for its turn before it starts would be in no rank's time.
#include <array>
#include <cstring>

#define HWY_COMPILE_ONLY_STATIC  // the best that the compiler may use
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "perf/peers/loop.hpp"

namespace {

namespace hn = hwy::HWY_NAMESPACE;

void copy_streaming(const float* from, float* to, std::size_t count) {
  const hn::ScalableTag<float> lanes;
  constexpr std::size_t kAlignment = 64;
  std::size_t i = 0;
  while (i < count && reinterpret_cast<std::uintptr_t>(to + i) % kAlignment != 0) {
    to[i] = from[i];
    ++i;
  }
  for (; i + hn::Lanes(lanes) <= count; i += hn::Lanes(lanes)) {
    hn::Stream(hn::LoadU(lanes, from + i), lanes, to + i);
  }
  for (; i < count; ++i) to[i] = from[i];
  hwy::FlushStream();
}

class Limit {
 public:
  explicit Limit(const peers::Arguments& arguments)
      : rank_(std::atoi(peers::need("RANK"))),
        ranks_(std::atoi(peers::need("WORLD_SIZE"))),
        streams_(arguments.library == "streaming"),
        take_turns_(peers::share_processors(ranks_)),
        others_(rank_, ranks_, kOwnPage),
        lines_(static_cast<Line*>(peers::shared_page(kOwnPage))) {
    if (arguments.collective == "exchange" && ranks_ != 2) peers::die("an exchange takes 2 ranks");
  }

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int ranks() const { return ranks_; }

  void run(const std::string& collective, peers::Message& message) {
    if (collective == "exchange") {
      exchange(message);
    } else {
      copy(message);
    }
  }

 private:
  static constexpr int kOwnPage = 1;  // of a barrier when copying, of lines when exchanging
  struct alignas(128) Line {
    std::atomic<std::uint64_t> sequence;
    std::array<float, 2> payload;
  };

  void copy(peers::Message& message) {
    const peers::Buffer& send = message.send;
    const std::size_t bytes = send.size() * sizeof(float);
    if (streams_) {
      copy_streaming(send.data(), message.recv.data(), send.size());
    } else {
      std::memcpy(message.recv.data(), send.data(), bytes);
    }
    if (take_turns_ && bytes > peers::kLargestBatched) others_.barrier();
  }

  void exchange(peers::Message& message) {
    if (message.send.size() != 2) peers::die("an exchange is of 8 bytes");
    ++sequence_;
    if (rank_ == 0) publish(message);
    receive(message);
    if (rank_ == 1) publish(message);
  }
  void publish(const peers::Message& message) {
    Line& own = lines_[rank_];
    own.payload = {message.send[0], message.send[1]};
    own.sequence.store(sequence_, std::memory_order_release);
  }
  void receive(peers::Message& message) {
    const Line& other = lines_[1 - rank_];
    for (int polls = 0; other.sequence.load(std::memory_order_acquire) != sequence_; ++polls) {
      if (polls > 2000) ::sched_yield();
    }
    std::copy(other.payload.begin(), other.payload.end(), message.recv.begin());
  }

  int rank_;
  int ranks_;
  bool streams_;
  bool take_turns_;
  peers::Meeting others_;
  Line* lines_;
  std::uint64_t sequence_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const peers::Arguments arguments = peers::parse(argc, argv);
  Limit limit(arguments);
  peers::Loop(limit, arguments).run();
}
