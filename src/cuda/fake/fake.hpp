// A CUDA driver in memory: what its files share. It is built as libcuda.so.1 in a folder of its
// own, so that any program runs on it that finds it first, and uses nothing of this project but the
// declarations of the driver's binary interface.
//
// Device memory is memory of this process, streams are queues that threads work off, and kernels
// are functions that a test registers (controls.hpp). What CUDA forbids fails as there.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "src/cuda/driver_abi.hpp"

#define FAKE_CUDA_EXPORT extern "C" __attribute__((visibility("default")))

/// Returns what `expr` returned from this function, unless that is success.
#define FAKE_CUDA_TRY(expr)                                                                      \
  do {                                                                                           \
    if (const auto tried_ = (expr); tried_ != tutti::cuda::abi::Return::kSuccess) return tried_; \
  } while (false)

namespace fake_cuda {
using namespace tutti::cuda::abi;  // NOLINT(google-build-using-namespace): this is that interface

// What every device is made of.
inline constexpr int kMultiprocessors = 16;
inline constexpr int kThreadsPerMultiprocessor = 2048;
inline constexpr int kSharedBytesPerBlock = 48 << 10;
inline constexpr int kSharedBytesPerBlockOptIn = 227 << 10;

/// Whether something that was submitted is over.
struct Completion {
  std::atomic<bool> reached = false;
};
using Done = std::shared_ptr<Completion>;
void reach(const Done& done);
void await(const Done& done);

using Run = std::function<Return()>;

/// Runs on a channel once everything before it on that channel and all of `after` is done.
struct Work {
  CUctx_st* context;
  std::vector<Done> after;
  Run run;
  Done done;
};

/// What a graph runs, in the order of the capture, and what it keeps alive.
struct GraphBody {
  struct Node {
    Run run;
    std::set<std::size_t> after;  // indices of nodes
  };
  GraphBody() = default;
  GraphBody(const GraphBody& other);  // keeps the same alive once more
  GraphBody& operator=(const GraphBody&) = delete;
  ~GraphBody();
  std::vector<Node> nodes;
  std::vector<std::pair<CUuserObject_st*, unsigned>> kept;  // and how many references of it
};

/// A capture of streams into a graph, until it is ended.
struct Capture {
  std::uint64_t id = 0;
  CUstream_st* origin = nullptr;
  CaptureMode mode = CaptureMode::kGlobal;
  std::thread::id thread;
  CUgraph_st* graph = nullptr;
  CaptureStatus status = CaptureStatus::kActive;  // kNone: ended
};

/// One hardware queue: a thread that does one work after the other, in the order of submission.
class Channel {
 public:
  void submit(Work work);
  /// Of the last work that was submitted; null if there was none.
  Done last();

 private:
  void serve();
  std::mutex mutex_;
  std::condition_variable filled_;
  std::deque<Work> works_;
  Done last_;
  bool running_ = false;  // its thread starts with the first work
};

enum class Kind : std::uint8_t { kDevice, kManaged, kPinned, kMapped, kImported };

/// Memory that the driver knows, by its first address in State::ranges.
struct Range {
  Kind kind;
  std::size_t bytes;
  int device;
  int fd = -1;                    // of the memory behind it, -1: of nobody else's concern
  unsigned long long handle = 0;  // kMapped: of the allocation
  bool accessible = true;         // kMapped: cuMemSetAccess came
  std::string origin{};           // kImported: the handle that was opened
  unsigned opened = 1;            // kImported: how often
};

/// Memory by a handle.
struct Allocation {
  int fd;
  std::size_t bytes;
  int device;
  unsigned handle_types;
  unsigned references;
  unsigned mappings = 0;
};

/// Everything. Whoever reads or writes it holds the lock, and so does the caller of what is
/// declared below and speaks of memory, streams or captures.
struct State {
  std::mutex mutex;
  bool initialised = false;
  std::vector<std::unique_ptr<CUctx_st>> devices;
  std::map<Address, Range> ranges;
  std::map<Address, std::size_t> reservations;
  std::map<CUstream_st*, std::unique_ptr<CUstream_st>> streams;  // with the default streams
  std::map<CUevent_st*, std::unique_ptr<CUevent_st>> events;
  std::map<CUmod_st*, std::unique_ptr<CUmod_st>> modules;
  std::map<AllocationHandle, Allocation> allocations;
  std::vector<std::shared_ptr<Capture>> captures;  // that are not ended
  std::map<CUgraph_st*, std::unique_ptr<CUgraph_st>> graphs;
  std::map<CUgraphExec_st*, std::unique_ptr<CUgraphExec_st>> graph_execs;
  std::atomic<long> user_objects = 0;
};
State& state();

// faults.cpp
/// Counts the call, and returns the error that was injected for it, if any. Ends the process in a
/// host function.
Return enter(const char* entry_point);
/// A number from the environment.
long setting(const char* name, long otherwise);
/// Marks this thread as the one of host functions: calls of the driver end the process from now on.
void enter_host_functions();

/// What fake_cuda_peers set.
enum class Peers : std::uint8_t { kReached, kNotReached, kCopiesHaveNoEnd, kCopiesArriveWrong };
Peers peers();

// devices.cpp
/// The context of this thread, if it is alive and not broken.
Return current_context(CUctx_st*& context);

// events.cpp
/// Has `call` called on the one thread of host functions.
Done call_on_host_thread(std::function<void()> call);

// streams.cpp
/// The stream of a handle or of a number that stands for one.
Return find_stream(Stream handle, CUstream_st*& stream);
/// Puts work into a stream, or into the graph that it is captured into; then `done` stays null.
Return submit(CUstream_st& stream, Run run, std::vector<Done> after = {}, Done* done = nullptr);
/// The last works of all channels of a context.
std::vector<Done> pending_of(const CUctx_st& context);
/// What goes with a context: its streams, events and modules.
void forget_streams_of(const CUctx_st& context);

// capture.cpp
/// Fails, and ends captures as CUDA does, where this thread may not make calls that a capture of
/// streams would miss.
Return forbid_beside_capture();
/// Fails, and invalidates the capture, where `stream` is under capture. For the legacy default
/// stream it counts if any blocking stream of its context is.
Return forbid_under_capture(const CUstream_st& stream);
/// Invalidates the capture that `stream`, which ends, takes part in. Where it is the origin, nobody
/// can end the capture any more, and it ends.
void abandon_capture(CUstream_st& stream);
/// Fails where `event` was last recorded under capture.
Return forbid_captured(const CUevent_st& event);
/// Makes `run` a node of the graph that `stream` is captured into.
Return add_node(CUstream_st& stream, Run run);
/// Makes what follows in `stream` depend on an event, where one of them is under capture.
Return join(CUstream_st& stream, const CUevent_st& event);

// guard.cpp
/// With FAKE_CUDA_GUARD=1, device memory can be touched by this process only while one of these
/// lives, as it is with real device memory: a program that takes it for its own ends at once. The
/// lock must not be held.
class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
};
/// Guards memory that is new, if memory is guarded now.
void guard(Address address, const Range& range);

// memory.cpp
/// The range that holds `address`, or null.
std::pair<const Address, Range>* range_of(Address address);
/// Opens file descriptor `number` of another process; -1 where that is not possible.
int open_of_process(int pid, int number);
/// Whether the driver knows all of [address, address + bytes), so that devices can reach it.
bool is_known(Address address, std::size_t bytes);
/// Whether the driver knows nothing of it, and it is memory of the process.
bool is_pageable(Address address, std::size_t bytes);
/// What goes with a context: allocations, registrations, what it imported; no memory by handles.
void forget_memory_of(const CUctx_st& context);

}  // namespace fake_cuda

/// A device and its primary context.
struct CUctx_st {
  int device = 0;
  int references = 0;
  std::atomic<fake_cuda::Return> broken = fake_cuda::Return::kSuccess;
  std::vector<std::unique_ptr<fake_cuda::Channel>> channels;
  std::size_t next_channel = 0;
  CUstream_st* legacy = nullptr;
  std::map<std::thread::id, CUstream_st*> per_thread;
  std::set<int> peers;
  std::size_t used_bytes = 0;
};

struct CUstream_st {
  CUctx_st* context = nullptr;
  bool blocking = false;
  fake_cuda::Channel* channel = nullptr;
  fake_cuda::Done last;
  std::shared_ptr<fake_cuda::Capture> capture;
  std::set<std::size_t> frontier;  // the nodes of the capture that come last in this stream
};

struct CUevent_st {
  CUctx_st* context = nullptr;
  fake_cuda::Done last;                         // null: never recorded
  std::shared_ptr<fake_cuda::Capture> capture;  // it was last recorded in, if any
  std::set<std::size_t> nodes;
};

struct CUmod_st {
  CUctx_st* context = nullptr;
};

struct CUgraph_st {
  fake_cuda::GraphBody body;
};

struct CUgraphExec_st {
  std::shared_ptr<const fake_cuda::GraphBody> body;
  fake_cuda::Done last;  // its launches run one after the other
};

struct CUuserObject_st {
  void* user;
  tutti::cuda::abi::HostFunction destroy;
  std::atomic<unsigned> references;
};
