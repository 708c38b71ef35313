// The elements of an MSCCL file as numbers, each checked by itself. msccl_read.cpp interprets them
// together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/exchange/assembly.hpp"

namespace tutti::exchange {

enum class MscclType : std::uint8_t {
  kSend,                ///< s
  kRecv,                ///< r
  kCopy,                ///< cpy
  kReduce,              ///< re: dst = dst + src
  kRecvCopySend,        ///< rcs: receives into dst and sends dst on
  kRecvReduceSend,      ///< rrs: sends on message + src, and stores nothing
  kRecvReduceCopy,      ///< rrc: dst = message + src
  kRecvReduceCopySend,  ///< rrcs: the same, and sends dst on
  kNop,
};
constexpr bool receives(MscclType type) {
  return type == MscclType::kRecv || (type >= MscclType::kRecvCopySend && type < MscclType::kNop);
}
constexpr bool sends(MscclType type) {
  return type == MscclType::kSend || type == MscclType::kRecvCopySend ||
         type == MscclType::kRecvReduceSend || type == MscclType::kRecvReduceCopySend;
}
constexpr bool reads_src(MscclType type) {
  return type != MscclType::kRecv && type != MscclType::kRecvCopySend && type != MscclType::kNop;
}
constexpr bool writes_dst(MscclType type) {
  return type != MscclType::kSend && type != MscclType::kRecvReduceSend && type != MscclType::kNop;
}

struct MscclStep {
  MscclType type = MscclType::kNop;
  Run src, dst;             ///< count 0 if the type does not use it
  int after_block = -1;     ///< depid: the thread block to wait for; -1: none
  int after_step = -1;      ///< deps: its step
  bool waited_for = false;  ///< hasdep
  std::size_t offset = 0;   ///< in the text
};

struct MscclBlock {
  Rank send = kNoRank;
  Rank recv = kNoRank;
  int channel = 0;
  std::vector<MscclStep> steps;
  std::size_t offset = 0;
};

struct MscclGpu {
  BufferSizes sizes;
  std::vector<MscclBlock> blocks;
};

/// What a file may be for, and the chunks of a block if it is.
struct MscclPurpose {
  Collective collective = Collective::kAllReduce;
  std::uint32_t chunks_per_block = 1;
};

struct MscclAlgo {
  std::string name;
  std::vector<MscclPurpose> purposes;  ///< one, or of coll="custom" all whose blocks fit the chunks
  int channels = 1;
  std::uint32_t fifo_depth = 2;  ///< messages between a send and its receive
  bool in_place = false;
  bool out_of_place = false;
  ir::Layout layout;  ///< of the gpus; empty if the file says nothing about it
  std::vector<MscclGpu> gpus;
  std::vector<std::string> skipped;  ///< each kind of element that has no meaning, and its place
};

Result<MscclAlgo> parse_msccl_xml(std::string_view text);

}  // namespace tutti::exchange
