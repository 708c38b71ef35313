// A fake CUDA driver in memory: what its files share. It is built as libcuda.so.1 in its own
// folder, so any program that finds it first runs on it. From this project it uses only the
// declarations of the driver's binary interface.
//
// Device memory is memory of this process. Streams are queues that threads serve. Kernels are
// functions that a test registers (controls.hpp). What CUDA forbids fails here, too.
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

/// Returns the result of `expr` from this function, unless it is success.
#define FAKE_CUDA_TRY(expr)                                                                      \
  do {                                                                                           \
    if (const auto tried_ = (expr); tried_ != tutti::cuda::abi::Return::kSuccess) return tried_; \
  } while (false)

namespace fake_cuda {
using namespace tutti::cuda::abi;  // NOLINT(google-build-using-namespace): this is that interface

// Properties of every device.
inline constexpr int kMultiprocessors = 16;
inline constexpr int kThreadsPerMultiprocessor = 2048;
inline constexpr int kSharedBytesPerBlock = 48 << 10;
inline constexpr int kSharedBytesPerBlockOptIn = 227 << 10;

/// Whether submitted work is complete.
struct Completion {
  std::atomic<bool> reached = false;
};
using Done = std::shared_ptr<Completion>;
void reach(const Done& done);
void await(const Done& done);

using Run = std::function<Return()>;

/// Runs on a channel after everything before it on that channel, and after all of `after`.
struct Work {
  CUctx_st* context;
  std::vector<Done> after;
  Run run;
  Done done;
};

/// What a graph runs, in capture order, and what it keeps alive.
struct GraphBody {
  struct Node {
    Run run;
    std::set<std::size_t> after;  // indices of nodes
  };
  GraphBody() = default;
  GraphBody(const GraphBody& other);  // keeps the same objects alive once more
  GraphBody& operator=(const GraphBody&) = delete;
  ~GraphBody();
  std::vector<Node> nodes;
  std::vector<std::pair<CUuserObject_st*, unsigned>> kept;  // with the number of references to each
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

/// One hardware queue: a thread that does its works one after the other, in submission order.
class Channel {
 public:
  void submit(Work work);
  /// Completion of the last submitted work; null if there was none.
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

/// Memory that the driver knows. Its first address is the key in State::ranges.
struct Range {
  Kind kind;
  std::size_t bytes;
  int device;
  int fd = -1;  // descriptor of the memory behind it; -1: none, it is never shared
  unsigned long long handle = 0;  // kMapped: the allocation
  bool accessible = true;         // kMapped: cuMemSetAccess was called
  std::string origin{};           // kImported: the opened handle
  unsigned opened = 1;            // kImported: how often it was opened
};

/// Memory by handle.
struct Allocation {
  int fd;
  std::size_t bytes;
  int device;
  unsigned handle_types;
  unsigned references;
  bool rdma = false;  // other devices may reach it
  unsigned mappings = 0;
};

/// All state. Reading or writing it needs the lock. So do calls of the functions below that deal
/// with memory, streams or captures.
struct State {
  std::mutex mutex;
  bool initialised = false;
  std::vector<std::unique_ptr<CUctx_st>> devices;
  std::map<Address, Range> ranges;
  std::map<Address, std::size_t> reservations;
  std::map<CUstream_st*, std::unique_ptr<CUstream_st>> streams;  // includes the default streams
  std::map<CUevent_st*, std::unique_ptr<CUevent_st>> events;
  std::map<CUmod_st*, std::unique_ptr<CUmod_st>> modules;
  std::map<AllocationHandle, Allocation> allocations;
  std::vector<std::shared_ptr<Capture>> captures;  // not ended yet
  std::map<CUgraph_st*, std::unique_ptr<CUgraph_st>> graphs;
  std::map<CUgraphExec_st*, std::unique_ptr<CUgraphExec_st>> graph_execs;
  std::atomic<long> user_objects = 0;
};
State& state();

// faults.cpp
/// Counts the call, and returns the error injected for it, if any. Ends the process if a host
/// function makes the call.
Return enter(const char* entry_point);
/// A number from the environment, or `otherwise`.
long setting(const char* name, long otherwise);
/// Marks this thread as the thread of host functions: from now on, driver calls on it end the
/// process.
void enter_host_functions();

/// The mode set by fake_cuda_peers.
enum class Peers : std::uint8_t { kReached, kNotReached, kCopiesHaveNoEnd, kCopiesArriveWrong };
Peers peers();

// devices.cpp
/// The context of this thread, if it is alive and not broken.
Return current_context(CUctx_st*& context);

// events.cpp
/// Runs `call` on the one thread for host functions.
Done call_on_host_thread(std::function<void()> call);

// streams.cpp
/// The stream of a handle, or of a number that stands for one.
Return find_stream(Stream handle, CUstream_st*& stream);
/// Puts work into a stream, or into the graph that captures it; then `done` stays null.
Return submit(CUstream_st& stream, Run run, std::vector<Done> after = {}, Done* done = nullptr);
/// The last works of all channels of a context.
std::vector<Done> pending_of(const CUctx_st& context);
/// Frees a context's streams, events and modules.
void forget_streams_of(const CUctx_st& context);

// capture.cpp
/// Fails, and ends captures as CUDA does, if this thread may not make calls that a stream capture
/// would miss.
Return forbid_beside_capture();
/// Fails, and invalidates the capture, if `stream` is under capture. The legacy default stream
/// counts as such if any blocking stream of its context is.
Return forbid_under_capture(const CUstream_st& stream);
/// Invalidates the capture that the ending stream `stream` takes part in. If it is the origin, the
/// capture ends, because no call can end it any more.
void abandon_capture(CUstream_st& stream);
/// Fails if `event` was last recorded under capture.
Return forbid_captured(const CUevent_st& event);
/// Adds `run` as a node of the graph that captures `stream`.
Return add_node(CUstream_st& stream, Run run);
/// Makes later work in `stream` depend on an event, if one of them is under capture.
Return join(CUstream_st& stream, const CUevent_st& event);

// guard.cpp
/// With FAKE_CUDA_GUARD=1, this process can touch device memory only while one of these objects
/// lives, as with real device memory. A program that uses it as its own memory ends at once. The
/// caller must not hold the lock.
class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
};
/// Guards new memory, if guarding is on.
void guard(Address address, const Range& range);

// memory.cpp
/// The range that contains `address`, or null.
std::pair<const Address, Range>* range_of(Address address);
/// Opens file descriptor `number` of another process; -1 if that fails.
int open_of_process(int pid, int number);
/// Whether the driver knows all of [address, address + bytes), so devices can reach it.
bool is_known(Address address, std::size_t bytes);
/// Whether the driver knows none of it, and it is memory of the process.
bool is_pageable(Address address, std::size_t bytes);
/// Frees a context's allocations, registrations and imports, but no memory by handles.
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
  std::set<std::size_t> frontier;  // last nodes of this stream in the capture
};

struct CUevent_st {
  CUctx_st* context = nullptr;
  fake_cuda::Done last;                         // null: never recorded
  std::shared_ptr<fake_cuda::Capture> capture;  // the capture of the last record, if any
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
  fake_cuda::Done last;  // launches of its functions run one after the other
};

struct CUuserObject_st {
  void* user;
  tutti::cuda::abi::HostFunction destroy;
  std::atomic<unsigned> references;
};
