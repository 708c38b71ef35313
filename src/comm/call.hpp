// One call on a communicator, and what follows from its arguments alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "src/transport/transport.hpp"
#include "tutti/types.hpp"

namespace tutti {

/// Where a call came from.
struct CallSite {
  const char* function = nullptr;  ///< of the API: "ncclAllReduce"
  const void* caller = nullptr;    ///< the address that it returns to
  friend bool operator==(const CallSite&, const CallSite&) = default;
};

/// One collective or point-to-point call as the user made it.
struct Call {
  Collective collective = Collective::kAllReduce;
  const void* send = nullptr;  ///< may be null where NCCL allows it
  void* recv = nullptr;
  std::size_t count = 0;  ///< elements, NCCL's meaning of count for each collective
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  std::byte scalar[8] = {};  ///< kPreMulSum: this rank's factor, one element of `type`
  Rank root = 0;             ///< the root, or the peer of kSend and kRecv
  CallSite site = {};        ///< set under TUTTI_CHECK=1 alone: errors show it and the arguments
  friend bool operator==(const Call&, const Call&) = default;
};

bool is_point_to_point(const Call& call);

/// What both sides compare.
CallSignature signature_of(const Call& call);

/// Bytes from one rank's block to the next.
std::size_t block_bytes(const Call& call);

/// NCCL's rules for buffers that overlap on purpose.
bool is_in_place(const Call& call, Rank rank);

/// Bytes of the buffers; 0 where `rank`, of `size`, does not use one.
struct BufferBytes {
  std::size_t send = 0, recv = 0;
};
BufferBytes buffer_bytes(const Call& call, Rank rank, std::int32_t size);

/// What the function of `call.site` names its buffers: "sendbuff" and "recvbuff", or "buff" twice.
struct BufferNames {
  std::string_view send, recv;
};
BufferNames buffer_names(const Call& call);

/// "train(step()+0x3f)": the call instruction of `site`.
std::string describe(const CallSite& site);

/// "ncclAllReduce(sendbuff=0x7f.., recvbuff=0x7f.., count=5, float, sum) at train(step()+0x3f)";
/// `call.site` must be set.
std::string describe(const Call& call);

}  // namespace tutti
