// One call on a communicator, and what follows from its arguments alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/ir/blocks.hpp"
#include "src/transport/transport.hpp"
#include "tutti/types.hpp"

namespace tutti {

/// Where a call came from.
struct CallSite {
  const char* function = nullptr;  ///< of the API: "ncclAllReduce"
  const void* caller = nullptr;    ///< the address that it returns to
  friend bool operator==(const CallSite&, const CallSite&) = default;
};

class Compressor;

/// One collective or point-to-point call as the user made it.
struct Call {
  Collective collective = Collective::kAllReduce;
  const void* send = nullptr;  ///< may be null where NCCL allows it
  void* recv = nullptr;
  /// Elements, NCCL's meaning of count for each collective; with `blocks`, of all of them.
  std::size_t count = 0;
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  std::byte scalar[8] = {};  ///< kPreMulSum: this rank's factor, one element of `type`
  /// kPreMulSum with GPU buffers: where the factor lies when the call runs; null: in `scalar`.
  const void* device_scalar = nullptr;
  Rank root = 0;  ///< the root, or the peer of kSend and kRecv
  /// The sizes of blocks that differ, one per rank (ir::may_be_uneven()). Null: all have `count`
  /// elements.
  std::shared_ptr<const ir::Blocks> blocks = nullptr;
  /// Null: what travels is plain. It outlives the call.
  Compressor* compressor = nullptr;
  /// Its messages go by kDeviceLanes: buffers may be a GPU's. A collective has to be one that
  /// GroupContext::only_messages(), and every rank in place.
  bool for_devices = false;
  bool device_memory = false;  ///< this rank's buffers are a GPU's
  float factor = 1;            ///< with a compressor: each rank's input is multiplied by this first
  CallSite site = {};          ///< set under TUTTI_CHECK=1 alone: errors show it and the arguments
  friend bool operator==(const Call&, const Call&) = default;
};

inline bool is_point_to_point(const Call& call) {
  return call.collective == Collective::kSend || call.collective == Collective::kRecv;
}

/// What ranks compare to find out whether they make the same call.
CallSignature signature_of(const Call& call);

/// Bytes of a block, where all have one size.
std::size_t block_bytes(const Call& call);

/// Whether the buffers overlap on purpose, by NCCL's rules.
bool is_in_place(const Call& call, Rank rank);

/// Bytes of the buffers without the gaps between blocks; 0 where `rank`, of `size`, does not use
/// one.
struct BufferBytes {
  std::size_t send = 0, recv = 0;
};
BufferBytes buffer_bytes(const Call& call, Rank rank, std::int32_t size);

/// Bytes of a buffer, counted from its beginning.
struct Stretch {
  std::size_t begin = 0, bytes = 0;
};
/// The parts of a buffer of `rank`, of `size`, that hold data. Gaps between blocks and empty blocks
/// are left out.
std::vector<Stretch> input_stretches(const Call& call, Rank rank, std::int32_t size);
std::vector<Stretch> output_stretches(const Call& call, Rank rank, std::int32_t size);

/// What the function of `call.site` names its buffers: "sendbuff" and "recvbuff", or "buff" twice.
struct BufferNames {
  std::string_view send, recv;
};
BufferNames buffer_names(const Call& call);

/// "train(step()+0x3f)": the call instruction of `site`.
std::string describe(const CallSite& site);

/// "counts=3,0,17"; at most the first 64 are shown.
std::string describe_counts(const ir::Blocks& blocks);

/// "ncclAllReduce(sendbuff=0x7f.., recvbuff=0x7f.., count=5, float, sum) at train(step()+0x3f)";
/// `call.site` must be set.
std::string describe(const Call& call);

}  // namespace tutti
