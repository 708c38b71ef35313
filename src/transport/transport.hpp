// Transport, Connection, Transfer: how bytes reach another process. Interfaces only.
//
// A Connection joins two *processes*. All communicators share it; StreamId tells them apart. It
// offers
//   messages   always: ordered within a stream, matched by sequence, landing in the receiver's
//              buffer;
//   mapping    if caps().mapped: loads and stores reach the peer's shared heap directly, and
//              local_pid() names its process.
// Functions that Caps does not announce are not called.
//
// Conformance (tests/conformance runs every transport through it):
//   - posting never blocks and never allocates beyond a bounded pool. A Transfer is the caller's
//     memory and stays in place until it is done, failed or cancelled;
//   - transfers of one stream complete in posting order. Streams are independent: a stream whose
//     receiver has not posted never delays another;
//   - if a message differs from what the receiver expects (sequence, bytes, signature), the
//     transfers on both sides fail with an error that shows both;
//   - after cancel() returns, the connection no longer touches that transfer or its buffer;
//   - when the peer dies, every pending and every later transfer fails with kPeerFailed naming it;
//     health() says why;
//   - data from a peer becomes a length, an index or a pointer only after validation.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <sys/types.h>

#include "src/base/blob.hpp"
#include "src/base/clock.hpp"
#include "src/base/fd.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti {

/// What a transport can do. Plain data, asked once.
struct Caps {
  bool mapped = false;           ///< Connection::mapped() is the peer's shared heap
  bool one_sided = false;        ///< large messages between registered memory need no copy
  bool device_memory = false;    ///< the same for GPU memory, where that can be registered
  std::uint32_t mbit_per_s = 0;  ///< speed of the network interface; 0: none, or unknown
};

/// Lanes with this bit carry checksums of other lanes (src/transport/checked_connection.hpp).
/// Schedules have fewer lanes than this.
inline constexpr Lane kChecksumLanes = 0x4000;
/// Lanes with this bit carry messages whose buffers may be a GPU's (see caps().device_memory), with
/// Transfer::device_memory then. No CPU touches these: they are put, and have to be registered. A
/// send needs its receiver, however short it is. A receive is complete when kernels see the data.
inline constexpr Lane kDeviceLanes = 0x8000;

/// Identifies one directed lane of one communicator.
struct StreamId {
  std::uint64_t communicator = 0;  ///< agreed at communicator creation
  Rank source = 0;
  Rank destination = 0;
  Lane lane = 0;
  friend bool operator==(const StreamId&, const StreamId&) = default;
};

/// Describes the call that a message belongs to. Both sides compare it, and errors show it.
struct CallSignature {
  Collective collective = Collective::kSend;
  DataType type = DataType::kInt8;
  ReduceOp op = ReduceOp::kSum;
  Rank root = 0;
  std::uint64_t count = 0;
  /// A hash of the ranks' block sizes, if these differ; `count` is then their sum. 0: all blocks
  /// have the same size.
  std::uint32_t blocks = 0;
  std::uint32_t compression = 0;  ///< codec::code_of(); 0: none
  friend bool operator==(const CallSignature&, const CallSignature&) = default;
};

/// "all_reduce(count=1024, float, sum)", "all_gather_v(20 elements, counts of hash 1f.., float)"
std::string describe(const CallSignature& call);

struct MessageTag {
  std::uint64_t sequence = 0;  ///< number of the operation within the communicator
  CallSignature call;
};

/// The state of one posted send or receive. The caller owns it and must not move it while pending.
struct Transfer {
  enum class State : std::uint8_t { kIdle, kPending, kDone, kFailed };
  std::atomic<State> state{State::kIdle};
  bool device_memory = false;         ///< set by the owner before it is posted: see kDeviceLanes
  Error error;                        ///< valid once kFailed was observed
  Transfer* next = nullptr;           ///< used by the connection while pending
  std::uint64_t connection_data[10];  ///< used by the connection while pending
};

/// Memory of a GPU. Whole pages of the host, within one allocation.
struct DeviceBuffer {
  std::span<std::byte> memory;  ///< device addresses
  /// Exports it as a descriptor of the kernel's DMA-BUF, or tells why that cannot be.
  std::function<Result<Fd>()> dma_buf;
  /// Kernels may miss what a NIC has written, unless it has read from that memory since.
  bool needs_flush = true;
};

/// It ends when the last copy of `keep` does.
struct DeviceRegistration {
  std::shared_ptr<const void> keep;
  std::string by;  ///< "DMA-BUF"
};

class Connection {
 public:
  virtual ~Connection() = default;

  /// Any thread may call these. `transfer` must be idle, done or failed. progress() moves the
  /// transfer on; transfer.state shows the result.
  virtual void send(const StreamId& stream, const MessageTag& tag, std::span<const std::byte> data,
                    Transfer& transfer) = 0;
  /// send() for a caller that will send on this connection again at once. A small message may wait
  /// for the next one, or for a progress(), and leave together with it.
  virtual void send_with_next(const StreamId& stream, const MessageTag& tag,
                              std::span<const std::byte> data, Transfer& transfer) = 0;
  virtual void recv(const StreamId& stream, const MessageTag& tag, std::span<std::byte> data,
                    Transfer& transfer) = 0;
  virtual void cancel(const StreamId& stream, Transfer& transfer) = 0;

  /// Moves data as far as it can without waiting. Returns whether anything moved.
  virtual bool progress() = 0;
  /// A descriptor that poll(2) reports readable (or writable, when `wants_write`) once progress()
  /// can do something; -1 when there is none. While `wants_write` is true, bytes of a send still
  /// wait here for a progress(), even if its transfer is done.
  virtual int poll_fd() const = 0;
  virtual bool wants_write() const = 0;

  /// Ok, or why this connection is dead.
  virtual Status health() const = 0;

  /// Whether lanes of kDeviceLanes work here.
  [[nodiscard]] virtual bool carries_device_memory() const { return false; }

  /// The peer's shared heap as mapped here if caps().mapped; else empty.
  virtual std::span<std::byte> mapped() const = 0;
  /// The peer's process id as seen from here if caps().mapped; else -1.
  virtual pid_t local_pid() const = 0;
};

/// The process at the other end.
struct PeerProcess {
  std::uint64_t token = 0;  ///< random, unique to the process; exchanged over the bootstrap
  Rank rank = kNoRank;      ///< one of its ranks, for messages
  Blob address;             ///< what its transport's address() returned
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual std::string_view name() const = 0;
  virtual Caps caps() const = 0;

  /// What peers need to connect to this process. Travels over the authenticated bootstrap.
  virtual Blob address() const = 0;
  /// Validates a peer's address, and says whether this transport can reach it.
  virtual bool reaches(std::span<const std::byte> address) const = 0;
  /// Registers memory, so that large messages to and from it need no copy, until the result is
  /// destroyed. The memory must outlive that. Null where the transport gains nothing by it.
  /// kUnavailable, with the limit, where no more can be registered. Thread-safe.
  virtual Result<std::shared_ptr<const void>> register_memory(std::span<std::byte> memory);
  /// The same for memory of a GPU: until then, device lanes may carry it. kUnsupported, with the
  /// reasons, where the devices do not reach it. Thread-safe.
  virtual Result<DeviceRegistration> register_device_memory(const DeviceBuffer& buffer);
  /// Called before so many connections are made. kUnavailable, with the need and the limit, if the
  /// system does not allow that many. Thread-safe.
  virtual Status prepare_for(std::size_t connections);
  /// Both sides call it, in any order. Returns the pair's existing connection if there is one.
  /// `key` is a shared secret of 32 bytes; both sides prove that they hold it before anything else
  /// is sent. Blocks until connected, failed or `deadline`.
  virtual Result<std::shared_ptr<Connection>> connect(const PeerProcess& peer,
                                                      std::span<const std::byte> key,
                                                      Deadline deadline) = 0;
};

}  // namespace tutti
