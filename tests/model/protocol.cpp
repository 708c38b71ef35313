#include "tests/model/protocol.hpp"

#include <algorithm>
#include <map>
#include <string>

#include <fmt/format.h>

namespace tutti::model {
namespace {

using Kind = Action::Kind;

/// What an application writes into its buffers between calls.
constexpr Value kScribble = 0xff;

Value value_of(int call, int detail) { return static_cast<Value>(call * 16 + detail); }
Value data_of(int call, int rank, int part) { return value_of(call, rank * 4 + part); }

class Builder {
 public:
  explicit Builder(const Job& job) : job_(job) {}

  System build() {
    system_.flags = job_.flags;
    system_.agents.resize(static_cast<std::size_t>(job_.ranks));
    for (rank_ = 0; rank_ < job_.ranks; ++rank_)
      for (number_ = 1; number_ <= static_cast<int>(job_.calls.size()); ++number_) {
        call_ = job_.calls[static_cast<std::size_t>(number_ - 1)];
        run();
      }
    return std::move(system_);
  }

 private:
  void run() {
    switch (call_.protocol) {
      case ImageProtocol::kPackets:
        enter();
        packets();
        leave();
        return;
      case ImageProtocol::kDirect:
        fill_buffers();
        enter();
        direct();
        leave();
        use_buffers();
        return;
      case ImageProtocol::kStaged:
        enter();
        staged();
        leave();
        return;
    }
  }

  // --- who ---

  [[nodiscard]] bool reads(int reader, int owner) const {
    if (reader == owner) return false;
    return call_.pattern == Pattern::kAll ||
           (call_.pattern == Pattern::kFromRoot ? owner : reader) == call_.root;
  }
  /// kDirect: whether `rank` loads from or stores to a buffer of `owner`.
  [[nodiscard]] bool touches(int rank, int owner) const {
    return call_.stores ? reads(owner, rank) : reads(rank, owner);
  }
  [[nodiscard]] bool has(Mistake mistake) const { return job_.mistake == mistake; }

  template <class F>
  [[nodiscard]] bool any_peer(const F& f) const {
    for (int peer = 0; peer < job_.ranks; ++peer)
      if (peer != rank_ && f(peer)) return true;
    return false;
  }
  template <class F>
  void for_peers(const F& f) const {
    for (int peer = 0; peer < job_.ranks; ++peer)
      if (peer != rank_) f(peer);
  }

  // --- actions ---

  void act(Kind kind, const std::string& place, Value value) {
    const auto [at, is_new] = places_.try_emplace(place, static_cast<Place>(places_.size()));
    if (is_new) system_.places.push_back(place);
    system_.agents[static_cast<std::size_t>(rank_)].push_back({kind, at->second, value});
  }
  void store(const std::string& place, Value value) { act(Kind::kStore, place, value); }
  void load(const std::string& place, Value value) { act(Kind::kLoad, place, value); }

  static std::string word(int owner, int writer) {
    return fmt::format("the word of {} at {}", writer, owner);
  }
  void tell(int peer, int position) {
    act(has(Mistake::kTellsWithoutRelease) ? Kind::kStore : Kind::kRelease, word(peer, rank_),
        value_of(number_, position));
  }
  void wait(int peer, int call, int position) {
    if (call > 0) act(Kind::kWait, word(rank_, peer), value_of(call, position));
  }

  // --- a call ---

  void enter() {
    for_peers([&](int peer) {
      const bool partner = reads(peer, rank_) || reads(rank_, peer);
      if (partner || !has(Mistake::kTellsOnlyPartners)) tell(peer, 0);
    });
  }

  void leave() {
    const unsigned flags = job_.flags;
    const bool is_last_lap = static_cast<unsigned>(number_) % flags >= flags - 2;
    if (!is_last_lap || has(Mistake::kClearsNoPackets)) return;
    for (int sender = 0; sender < job_.ranks; ++sender)
      for (int half = 0; half < job_.halves; ++half) store(packet(rank_, sender, half), 0);
  }

  // --- packets ---

  /// How far things lie from where a call without moves has them.
  [[nodiscard]] int shift() const { return job_.moves ? number_ / 2 : 0; }

  [[nodiscard]] std::string packet(int reader, int sender, int half) const {
    return fmt::format("half {} of packet {} in inbox {} of {}", half,
                       (sender + shift()) % job_.ranks, has(Mistake::kOneInbox) ? 0 : number_ % 2,
                       reader);
  }

  void packets() {
    for_peers([&](int peer) {
      if (reads(peer, rank_) && !has(Mistake::kPushesUnasked)) wait(peer, number_ - 1, 0);
    });
    for_peers([&](int peer) {
      if (!reads(peer, rank_)) return;
      for (int half = 0; half < job_.halves; ++half)
        store(packet(peer, rank_, half), data_of(number_, rank_, half));
    });
    for_peers([&](int peer) {
      if (!reads(rank_, peer)) return;
      for (int half = 0; half < job_.halves; ++half) {
        const bool polls =
            !has(Mistake::kPollsNoFlag) && (half == 0 || !has(Mistake::kPollsHalfAPacket));
        act(polls ? Kind::kPoll : Kind::kLoad, packet(rank_, peer, half),
            data_of(number_, peer, half));
      }
    });
  }

  // --- direct ---

  static std::string input(int owner) { return fmt::format("the input of {}", owner); }
  static std::string output(int owner, int from) {
    return fmt::format("the output of {} from {}", owner, from);
  }

  void fill_buffers() { store(input(rank_), data_of(number_, rank_, 0)); }

  void direct() {
    for_peers([&](int peer) {
      if (touches(rank_, peer) && !has(Mistake::kTouchesUnasked)) wait(peer, number_, 0);
    });
    for_peers([&](int peer) {
      if (!touches(rank_, peer)) return;
      if (call_.stores)
        store(output(peer, rank_), data_of(number_, rank_, 0));
      else
        load(input(peer), data_of(number_, peer, 0));
    });
    for_peers([&](int peer) {
      if (touches(rank_, peer)) tell(peer, 1);
    });
    for_peers([&](int peer) {
      if (touches(peer, rank_) && !has(Mistake::kLeavesUsers)) wait(peer, number_, 1);
    });
  }

  /// The application takes what it got, and has its buffers back.
  void use_buffers() {
    for_peers([&](int peer) {
      if (!call_.stores || !touches(peer, rank_)) return;
      load(output(rank_, peer), data_of(number_, peer, 0));
      store(output(rank_, peer), kScribble);
    });
    store(input(rank_), kScribble);
  }

  // --- staged: op 0 fills a slot, op 1, a stage later, reads those of others ---

  struct Told {
    int writes = 0, reads = 0;  ///< 1 where the rank has that op
    [[nodiscard]] int ops() const { return writes + reads; }
    [[nodiscard]] int of_write(int slice) const { return slice * ops() + 1; }
    [[nodiscard]] int of_read(int slice) const { return (slice + 1) * ops() + writes + 1; }
  };
  [[nodiscard]] Told told(int rank) const {
    Told told;
    for (int peer = 0; peer < job_.ranks; ++peer) {
      if (reads(peer, rank)) told.writes = 1;
      if (reads(rank, peer)) told.reads = 1;
    }
    return told;
  }
  [[nodiscard]] std::string slot(int writer, int slice) const {
    return fmt::format("slot {} of {} in half {}", (slice + shift()) % job_.depth, writer,
                       has(Mistake::kOneHalfOfSlots) ? 0 : number_ % 2);
  }

  void staged() {
    if (!has(Mistake::kReusesSlotsUnasked))
      for_peers([&](int peer) { wait(peer, number_ - 1, 0); });
    const Told own = told(rank_);
    for (int iteration = 0; iteration < job_.slices + own.reads; ++iteration) {
      if (own.writes == 1 && iteration < job_.slices) write_slot(iteration, own);
      if (own.reads == 1 && iteration >= 1) read_slots(iteration - 1, own);
    }
  }

  void write_slot(int slice, const Told& own) {
    const int before = slice - job_.depth;
    for_peers([&](int peer) {
      if (reads(peer, rank_) && before >= 0 && !has(Mistake::kRefillsUnasked))
        wait(peer, number_, told(peer).of_read(before));
    });
    const auto tell_readers = [&] {
      for_peers([&](int peer) {
        if (reads(peer, rank_)) tell(peer, own.of_write(slice));
      });
    };
    if (has(Mistake::kTellsTooEarly)) tell_readers();
    store(slot(rank_, slice), data_of(number_, rank_, slice));
    if (!has(Mistake::kTellsTooEarly)) tell_readers();
  }

  void read_slots(int slice, const Told& own) {
    for_peers([&](int peer) {
      if (reads(rank_, peer) && !has(Mistake::kReadsUnasked))
        wait(peer, number_, told(peer).of_write(slice));
    });
    for_peers([&](int peer) {
      if (reads(rank_, peer)) load(slot(peer, slice), data_of(number_, peer, slice));
    });
    for_peers([&](int peer) {
      if (reads(rank_, peer)) tell(peer, own.of_read(slice));
    });
  }

  const Job& job_;
  System system_;
  std::map<std::string, Place> places_;
  int rank_ = 0;
  int number_ = 0;  ///< of the call, from 1
  Call call_;
};

}  // namespace

System system_of(const Job& job) { return Builder(job).build(); }

}  // namespace tutti::model
