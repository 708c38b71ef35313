// A verbs library in memory: what its files share. It is built as libibverbs.so.1 in its own
// folder, so any program that finds it first runs on it. It uses nothing of this project.
//
// It moves data as reliable connections do, in the order of each queue pair, and checks what
// hardware checks: keys, ranges, rights, states, first packet numbers, sizes of packets, types of
// GIDs. Whatever the standard leaves open, the seed decides: which queue pair goes first, when the
// bytes of a work are read and when which of them land, how long an answer takes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include <infiniband/verbs.h>

#include "src/verbs/fake/controls.hpp"

#define FAKE_VERBS_EXPORT extern "C" __attribute__((visibility("default")))

namespace fake_verbs {

using Gid = std::array<std::uint8_t, 16>;

struct GidEntry {
  Gid gid{};  // all 0: not set
  ibv_gid_type type = IBV_GID_TYPE_ROCE_V2;
  std::uint32_t interface = 0;
};

struct Port {
  bool active = true;
  bool cut = false;  // packets get lost
  bool ethernet = true;
  unsigned mtu = 4096;
  unsigned mbit = 100000;
  std::uint16_t lid = 0;
  std::uint32_t message = 1U << 30;
  std::vector<GidEntry> gids;
  [[nodiscard]] bool passes() const { return active && !cut; }
};

/// A device as the file describes it.
struct Model {
  std::string name;
  std::uint64_t guid = 0;
  int queue_pairs = 1024;
  int work_requests = 4096;
  int completions = 65536;
  int regions = 65536;
  std::uint32_t inlined = 64;
  bool dma_buf = true;
  bool peer_memory = false;  // the kernel helps to register memory of a GPU by its address
  bool holds_writes = true;  // to memory of a GPU, as long as it may
  bool relaxed_ordering = true;
  bool removed = false;
  std::vector<Port> ports;
  ibv_device device{};  // what the caller sees
};

struct Context;

struct Region {
  ibv_mr mr{};
  Context* context = nullptr;
  std::uint64_t address = 0;  // as work requests and peers name it
  std::byte* memory = nullptr;
  std::size_t bytes = 0;
  unsigned access = 0;
  bool mapped = false;     // of a DMA-BUF, mapped here
  bool of_device = false;  // memory of a GPU
  /// What was written to memory of a GPU and is still on its way there, though everybody has heard
  /// of it: places and bytes. Reads of the same device do not overtake it.
  std::vector<std::pair<std::size_t, std::vector<std::byte>>> held;
};

struct Channel {
  ibv_comp_channel channel{};
  std::deque<ibv_cq*> events;
};

struct Completion {
  ibv_wc wc{};
  std::uint32_t frees = 0;  // places in the send queue, once it is polled
};

struct CompletionQueue {
  ibv_cq cq{};
  Context* context = nullptr;
  Channel* channel = nullptr;
  std::deque<Completion> entries;
  bool armed = false;
  bool broken = false;
  long unacknowledged = 0;  // wakes that were taken
};

/// What travels from one queue pair to another.
struct Packet {
  enum class Kind : std::uint8_t { kWrite, kReadRequest, kReadAnswer, kAck, kNak, kNotReady };
  Kind kind = Kind::kWrite;
  std::uint32_t from = 0;  // numbers of queue pairs
  std::uint32_t to = 0;
  Gid from_gid{};
  Gid to_gid{};
  std::uint16_t to_lid = 0;
  std::uint32_t sequence = 0;  // of the work on its queue pair, from its first packet number on
  std::uint64_t address = 0;
  std::uint32_t key = 0;
  std::uint32_t length = 0;
  bool has_immediate = false;
  std::uint32_t immediate = 0;
  std::uint32_t mtu = 0;
  std::uint32_t gid_type = 0;
  std::uint8_t status = 0;  // of a kNak
  std::vector<std::byte> payload;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> missing;  // pieces that have not landed
  bool landing = false;
};

struct Work {
  ibv_send_wr wr{};
  std::vector<ibv_sge> pieces;
  std::vector<std::byte> inlined;
  std::uint32_t sequence = 0;
  std::uint32_t length = 0;
  bool sent = false;
};

struct QueuePair {
  ibv_qp qp{};
  Context* context = nullptr;
  CompletionQueue* sends_to = nullptr;
  CompletionQueue* receives_to = nullptr;
  std::uint32_t most_sends = 0, most_receives = 0, inlined = 0;
  bool all_signalled = false;
  ibv_qp_attr attributes{};
  std::deque<Work> sends;  // posted and not complete
  std::uint32_t occupied =
      0;  // places: also of what is complete, until a later completion is polled
  std::uint32_t unreported = 0;  // complete without a completion, since the last one
  std::deque<std::uint64_t> receives;
  std::uint32_t next_sequence = 0;      // of the next work
  std::uint32_t expected_sequence = 0;  // of the next packet from the peer
  std::uint64_t waiting_since = 0;      // time of the oldest answer that is due
  unsigned tries = 0, not_ready_tries = 0;
  std::uint64_t hold_until = 0;  // the peer was not ready
  int socket = -1;               // in a network of processes
};

struct Context {
  verbs_context verbs{};  // its last member is what the caller sees
  Model* model = nullptr;
  std::deque<ibv_async_event> events;
  int event_writer = -1;
  long objects = 0;  // that live on it
};
inline Context& context_of(ibv_context* context) {
  return *reinterpret_cast<Context*>(reinterpret_cast<char*>(context) -
                                     offsetof(verbs_context, context));
}

/// All there is. One lock.
struct State {
  std::recursive_mutex mutex;
  std::vector<std::unique_ptr<Model>> models;
  std::vector<Context*> contexts;
  std::map<std::uint32_t, std::unique_ptr<QueuePair>> queue_pairs;
  std::map<std::uint32_t, std::unique_ptr<Region>> regions;  // by key
  std::map<ibv_cq*, std::unique_ptr<CompletionQueue>> completion_queues;
  std::map<ibv_comp_channel*, std::unique_ptr<Channel>> channels;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::deque<Packet>> wires;  // by from and to
  std::map<std::string, long> counts;
  std::map<std::string, long> live;
  std::string network;
  std::uint64_t seed = 0;
  std::mt19937_64 random;
  FakeVerbsChances chances{};
  std::uint32_t next_key = 0x1000;
  std::uint32_t next_queue_pair = 0x11;
  std::uint64_t steps = 0;
  bool copy_on_fork = true;  // the kernel copies registered pages for a child
  bool fork_safe = false;    // by ibv_fork_init
  bool registered = false;

  /// True once in `of` times, and never without a seed.
  bool happens(std::uint64_t times, std::uint64_t of) {
    return seed != 0 && times > 0 && random() % of < times;
  }
  std::uint64_t any_below(std::uint64_t bound) { return seed == 0 ? 0 : random() % bound; }
};
State& state();
using Lock = std::scoped_lock<std::recursive_mutex>;

// model.cpp
void load(const std::string& text, std::uint64_t seed);
Model* find_model(const std::string& name);
Gid parse_gid(const std::string& text);
ibv_gid_type parse_type(const std::string& text);

// objects.cpp
Port* port_of(const QueuePair& pair);
Region* find_region(std::uint32_t key);
void report(Context& context, ibv_event_type type, void* element, int port);
void report_on(Model& model, ibv_event_type type, int port);
/// Ends the queue pair: its works are flushed.
void end(QueuePair& pair);
void complete(CompletionQueue& queue, const ibv_wc& completion, std::uint32_t frees = 0);
void break_queue(CompletionQueue& queue);
/// What the device wrote to memory of GPUs arrives there.
void let_go(const Model& model);

// engine.cpp
int post_send(ibv_qp* qp, ibv_send_wr* work, ibv_send_wr** bad);
int post_recv(ibv_qp* qp, ibv_recv_wr* work, ibv_recv_wr** bad);
/// One thing that may happen next happens. False if there is none.
bool step();
/// Takes a packet that has come from another process.
void arrive(Packet packet);

// network.cpp
/// Microseconds in a network of processes, else steps.
std::uint64_t now();
/// A number that no other queue pair has that it may meet.
std::uint32_t new_number(QueuePair& pair);
void leave(QueuePair& pair);
void send(Packet packet);
void limit_messages();
/// Its thread lives as long as a device is open.
void start_network();
void stop_network();
/// In a child: it has no thread yet.
void forget_network();
void wake_network();

}  // namespace fake_verbs
