// Element types, reductions and collectives: the vocabulary that every layer shares.
//
// DataType and ReduceOp have NCCL's numeric values, so the C API checks the range and casts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tutti {

/// A rank of a communicator, 0 .. size-1.
using Rank = std::int32_t;
inline constexpr Rank kNoRank = -1;

/// An ordered channel between two ranks: messages of one lane never overtake each other.
using Lane = std::uint16_t;

enum class DataType : std::uint8_t {
  kInt8 = 0,
  kUint8 = 1,
  kInt32 = 2,
  kUint32 = 3,
  kInt64 = 4,
  kUint64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,
  kFloat8e4m3 = 10,
  kFloat8e5m2 = 11,
};
inline constexpr int kDataTypes = 12;

/// kPreMulSum stands for every operator made by ncclRedOpCreatePreMulSum. Its scalar is passed
/// separately.
enum class ReduceOp : std::uint8_t {
  kSum = 0,
  kProd = 1,
  kMax = 2,
  kMin = 3,
  kAvg = 4,
  kPreMulSum = 5
};
inline constexpr int kReduceOps = 6;

enum class Collective : std::uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kBroadcast,
  kReduce,
  kAllToAll,
  kGather,
  kScatter,
  kSend,
  kRecv,
};
inline constexpr int kCollectives = 10;

/// Bytes of one element.
constexpr std::size_t size_of(DataType type) {
  switch (type) {
    case DataType::kInt8:
    case DataType::kUint8:
    case DataType::kFloat8e4m3:
    case DataType::kFloat8e5m2:
      return 1;
    case DataType::kFloat16:
    case DataType::kBfloat16:
      return 2;
    case DataType::kInt32:
    case DataType::kUint32:
    case DataType::kFloat32:
      return 4;
    case DataType::kInt64:
    case DataType::kUint64:
    case DataType::kFloat64:
      return 8;
  }
  return 0;
}

/// The names that nccl-tests uses: "int8", "half", "float", "f8e4m3" ...
constexpr std::string_view name_of(DataType type) {
  constexpr std::string_view kNames[] = {"int8", "uint8", "int32",  "uint32",   "int64",  "uint64",
                                         "half", "float", "double", "bfloat16", "f8e4m3", "f8e5m2"};
  return kNames[static_cast<std::size_t>(type)];
}

/// The names that nccl-tests uses: "sum", "prod", "max", "min", "avg", "mulsum".
constexpr std::string_view name_of(ReduceOp op) {
  constexpr std::string_view kNames[] = {"sum", "prod", "max", "min", "avg", "mulsum"};
  return kNames[static_cast<std::size_t>(op)];
}

constexpr std::string_view name_of(Collective collective) {
  constexpr std::string_view kNames[] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                         "reduce",     "all_to_all", "gather",         "scatter",
                                         "send",       "recv"};
  return kNames[static_cast<std::size_t>(collective)];
}

/// True for the collectives that combine elements of several ranks.
constexpr bool reduces(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduceScatter ||
         collective == Collective::kReduce;
}

/// True for the collectives that have a root.
constexpr bool rooted(Collective collective) {
  return collective == Collective::kBroadcast || collective == Collective::kReduce ||
         collective == Collective::kGather || collective == Collective::kScatter;
}

}  // namespace tutti
