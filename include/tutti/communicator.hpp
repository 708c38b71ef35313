// tutti::Comm: one rank of a communicator, with typed collectives. RAII over ncclComm_t.
//
// Header-only; link libtutti.so. The contracts are those of tutti/nccl.h: every rank makes the same
// calls in the same order, one thread at a time, with counts in elements. With a Stream a call
// returns at once. Do not touch its buffers until the stream is synchronized.
//
//   auto comm = tutti::Comm::from_environment();
//   if (!comm) { ... comm.error().what ... }
//   comm->all_reduce<float>(mine, sum);
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "tutti/error.hpp"
#include "tutti/status.hpp"
#include "tutti/stream.hpp"
#include "tutti/tutti.h"
#include "tutti/types.hpp"

namespace tutti {

/// Types that have a DataType. For half floats and others use native().
template <class T>
concept Element = std::same_as<T, std::int8_t> || std::same_as<T, std::uint8_t> ||
                  std::same_as<T, std::int32_t> || std::same_as<T, std::uint32_t> ||
                  std::same_as<T, std::int64_t> || std::same_as<T, std::uint64_t> ||
                  std::same_as<T, float> || std::same_as<T, double>;

template <Element T>
constexpr DataType data_type_of() {
  if constexpr (std::same_as<T, std::int8_t>) return DataType::kInt8;
  if constexpr (std::same_as<T, std::uint8_t>) return DataType::kUint8;
  if constexpr (std::same_as<T, std::int32_t>) return DataType::kInt32;
  if constexpr (std::same_as<T, std::uint32_t>) return DataType::kUint32;
  if constexpr (std::same_as<T, std::int64_t>) return DataType::kInt64;
  if constexpr (std::same_as<T, std::uint64_t>) return DataType::kUint64;
  if constexpr (std::same_as<T, float>) return DataType::kFloat32;
  if constexpr (std::same_as<T, double>) return DataType::kFloat64;
}

/// For the wrappers: arguments as the C API takes them, and their own errors.
namespace detail {

template <Element T>
constexpr ncclDataType_t raw_type() {
  return static_cast<ncclDataType_t>(data_type_of<T>());
}
inline ncclRedOp_t raw(ReduceOp op) { return static_cast<ncclRedOp_t>(op); }
inline cudaStream_t raw(const Stream* stream) {
  return stream == nullptr ? nullptr : stream->native();
}
inline Error mismatch(const char* what) { return {Code::kInvalidArgument, what}; }

}  // namespace detail

/// Resource, movable; the destructor destroys the communicator.
class Comm {
 public:
  /// Joins the job that a launcher started; see tuttiCommInitFromEnvironment.
  static Result<Comm> from_environment(const char* url = nullptr, double timeout_s = 0) {
    ncclComm_t comm = nullptr;
    if (const auto code = tuttiCommInitFromEnvironment(&comm, url, timeout_s);
        code != ncclSuccess) {
      return last_error(code);
    }
    return Comm(comm);
  }
  /// Joins the group identified by `id` as rank `rank` of `size`.
  static Result<Comm> join(const ncclUniqueId& id, int size, Rank rank) {
    ncclComm_t comm = nullptr;
    if (const auto code = tuttiNcclCommInitRank(&comm, size, id, rank); code != ncclSuccess) {
      return last_error(code);
    }
    return Comm(comm);
  }
  /// All ranks of a group, in this process. Drive them in groups, or with one thread each.
  static Result<std::vector<Comm>> all(int size) {
    std::vector<ncclComm_t> handles(size > 0 ? static_cast<std::size_t>(size) : 0);
    if (const auto code = tuttiNcclCommInitAll(handles.data(), size, nullptr);
        code != ncclSuccess) {
      return last_error(code);
    }
    std::vector<Comm> comms;
    for (ncclComm_t handle : handles) comms.push_back(Comm(handle));
    return comms;
  }

  ~Comm() {
    if (comm_ != nullptr) (void)tuttiNcclCommDestroy(comm_);
  }
  Comm(Comm&& other) noexcept : comm_(std::exchange(other.comm_, nullptr)) {}
  Comm& operator=(Comm&& other) noexcept {
    std::swap(comm_, other.comm_);
    return *this;
  }
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  [[nodiscard]] Rank rank() const {
    int value = kNoRank;
    (void)tuttiNcclCommUserRank(comm_, &value);
    return value;
  }
  [[nodiscard]] int size() const {
    int value = 0;
    (void)tuttiNcclCommCount(comm_, &value);
    return value;
  }
  /// Ok, or the error that ended this communicator.
  [[nodiscard]] Status health() const {
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = tuttiNcclCommGetAsyncError(comm_, &state);
    if (asked != ncclSuccess) return last_error(asked);
    if (state == ncclSuccess || state == ncclInProgress) return ok_status();
    Error error{code_of(state), tuttiNcclGetLastError(comm_)};
    (void)tuttiCommFailedRank(comm_, &error.peer);
    return error;
  }

  /// out = op over the `in` of all ranks. Spans have equal length; pass the same span twice for in
  /// place.
  template <Element T>
  Status all_reduce(std::span<const T> in, std::span<T> out, ReduceOp op = ReduceOp::kSum,
                    const Stream* stream = nullptr) {
    if (!(out.size() == in.size()))
      return detail::mismatch("all_reduce: the spans differ in length");
    return answer(tuttiNcclAllReduce(in.data(), out.data(), in.size(), detail::raw_type<T>(),
                                     detail::raw(op), comm_, detail::raw(stream)));
  }
  /// out of `root` = op over the `in` of all ranks. Other ranks' `out` is not used.
  template <Element T>
  Status reduce(std::span<const T> in, std::span<T> out, Rank root, ReduceOp op = ReduceOp::kSum,
                const Stream* stream = nullptr) {
    if (!(rank() != root || out.size() == in.size()))
      return detail::mismatch("reduce: the spans differ in length");
    return answer(tuttiNcclReduce(in.data(), out.data(), in.size(), detail::raw_type<T>(),
                                  detail::raw(op), root, comm_, detail::raw(stream)));
  }
  /// data of every rank = data of `root`.
  template <Element T>
  Status broadcast(std::span<T> data, Rank root, const Stream* stream = nullptr) {
    return answer(tuttiNcclBcast(data.data(), data.size(), detail::raw_type<T>(), root, comm_,
                                 detail::raw(stream)));
  }
  /// Block r of out = in of rank r. out has size() blocks.
  template <Element T>
  Status all_gather(std::span<const T> in, std::span<T> out, const Stream* stream = nullptr) {
    if (!(out.size() == in.size() * ranks()))
      return detail::mismatch("all_gather: out must hold size() blocks of in");
    return answer(tuttiNcclAllGather(in.data(), out.data(), in.size(), detail::raw_type<T>(), comm_,
                                     detail::raw(stream)));
  }
  /// out = block rank() of op over the `in` of all ranks. in has size() blocks.
  template <Element T>
  Status reduce_scatter(std::span<const T> in, std::span<T> out, ReduceOp op = ReduceOp::kSum,
                        const Stream* stream = nullptr) {
    if (!(in.size() == out.size() * ranks()))
      return detail::mismatch("reduce_scatter: in must hold size() blocks of out");
    return answer(tuttiNcclReduceScatter(in.data(), out.data(), out.size(), detail::raw_type<T>(),
                                         detail::raw(op), comm_, detail::raw(stream)));
  }
  /// Block r of out = block rank() of rank r's `in`.
  template <Element T>
  Status all_to_all(std::span<const T> in, std::span<T> out, const Stream* stream = nullptr) {
    if (!(out.size() == in.size() && in.size() % ranks() == 0))
      return detail::mismatch("all_to_all: both spans must hold size() equal blocks");
    return answer(tuttiNcclAlltoAll(in.data(), out.data(), in.size() / ranks(),
                                    detail::raw_type<T>(), comm_, detail::raw(stream)));
  }
  /// The *_v calls take blocks of different sizes, one after the other in rank order. counts[r] is
  /// the size of rank r's block. They call tuttiAllGatherv and its neighbours. Here: block r of out
  /// = in of rank r.
  template <Element T>
  Status all_gather_v(std::span<const T> in, std::span<T> out, std::span<const std::size_t> counts,
                      const Stream* stream = nullptr) {
    if (!(counts.size() == ranks() && out.size() == sum(counts)))
      return detail::mismatch("all_gather_v: out must hold the size() blocks that counts names");
    return answer(tuttiAllGatherv(in.data(), in.size(), out.data(), counts.data(), nullptr,
                                  detail::raw_type<T>(), comm_, detail::raw(stream)));
  }
  /// out = block rank() of op over the `in` of all ranks.
  template <Element T>
  Status reduce_scatter_v(std::span<const T> in, std::span<T> out,
                          std::span<const std::size_t> counts, ReduceOp op = ReduceOp::kSum,
                          const Stream* stream = nullptr) {
    if (!(counts.size() == ranks() && in.size() == sum(counts)))
      return detail::mismatch("reduce_scatter_v: in must hold the size() blocks that counts names");
    return answer(tuttiReduceScatterv(in.data(), counts.data(), nullptr, out.data(), out.size(),
                                      detail::raw_type<T>(), detail::raw(op), comm_,
                                      detail::raw(stream)));
  }
  /// Block r of out (recv_counts[r] elements) = block rank() of rank r's `in`.
  template <Element T>
  Status all_to_all_v(std::span<const T> in, std::span<const std::size_t> send_counts,
                      std::span<T> out, std::span<const std::size_t> recv_counts,
                      const Stream* stream = nullptr) {
    if (!(send_counts.size() == ranks() && in.size() == sum(send_counts) &&
          recv_counts.size() == ranks() && out.size() == sum(recv_counts)))
      return detail::mismatch(
          "all_to_all_v: each span must hold the size() blocks that its counts name");
    return answer(tuttiAllToAllv(in.data(), send_counts.data(), nullptr, out.data(),
                                 recv_counts.data(), nullptr, detail::raw_type<T>(), comm_,
                                 detail::raw(stream)));
  }
  template <Element T>
  Status send(std::span<const T> data, Rank peer, const Stream* stream = nullptr) {
    return answer(tuttiNcclSend(data.data(), data.size(), detail::raw_type<T>(), peer, comm_,
                                detail::raw(stream)));
  }
  template <Element T>
  Status recv(std::span<T> data, Rank peer, const Stream* stream = nullptr) {
    return answer(tuttiNcclRecv(data.data(), data.size(), detail::raw_type<T>(), peer, comm_,
                                detail::raw(stream)));
  }

  /// Makes a communicator of the ranks that are not in `excluded`. Excluded ranks do not call it
  /// and may be dead.
  Result<Comm> shrink(std::vector<Rank> excluded, bool abort_first = true) {
    ncclComm_t survivors = nullptr;
    const auto code =
        tuttiNcclCommShrink(comm_, excluded.data(), static_cast<int>(excluded.size()), &survivors,
                            nullptr, abort_first ? NCCL_SHRINK_ABORT : NCCL_SHRINK_DEFAULT);
    if (code != ncclSuccess) return last_error(code, comm_);
    return Comm(survivors);
  }

  /// Makes a communicator of the ranks that pass the same `color`, ordered by `key`, then by rank.
  /// Collective. Ranks that pass NCCL_SPLIT_NOCOLOR get kInvalidUsage instead.
  Result<Comm> split(int color, int key) {
    ncclComm_t part = nullptr;
    if (const auto code = tuttiNcclCommSplit(comm_, color, key, &part, nullptr);
        code != ncclSuccess) {
      return last_error(code, comm_);
    }
    if (part == nullptr) return Error{Code::kInvalidUsage, "split: this rank is in no part"};
    return Comm(part);
  }
  /// Fixes the algorithm ("two_shot"; see `tutti algo list`) for calls of `collective` from the
  /// next call on, wherever it can run them. nullptr lets the library choose again. All ranks must
  /// call this between the same calls. "fixed_tree" adds along one tree over the ranks, so float
  /// sums have the same bits on any set of hosts. kInvalidArgument when the algorithm does not
  /// exist or cannot run this collective on these ranks. More at tuttiCommSetAlgorithm.
  Status set_algorithm(Collective collective, const char* algorithm) {
    return answer(tuttiCommSetAlgorithm(comm_, static_cast<tuttiCollective_t>(collective),
                                        algorithm, /*kernel_reads=*/-1));
  }
  /// Makes running calls fail, here and soon after on the other ranks. Every later call fails. The
  /// object remains usable for health().
  void revoke() { (void)tuttiNcclCommRevoke(comm_, 0); }

  /// The handle for the C API. This object keeps ownership.
  [[nodiscard]] ncclComm_t native() const { return comm_; }

 private:
  explicit Comm(ncclComm_t comm) : comm_(comm) {}

  [[nodiscard]] std::size_t ranks() const { return static_cast<std::size_t>(size()); }
  static std::size_t sum(std::span<const std::size_t> counts) {
    return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  }
  Status answer(ncclResult_t result) const { return to_status(result, comm_); }

  ncclComm_t comm_;
};

/// Calls made while a Group is open run together at its end, so one thread can drive several ranks.
/// The destructor ends an open group and ignores the outcome: call end().
class Group {
 public:
  Group() { (void)tuttiNcclGroupStart(); }
  ~Group() {
    if (open_) (void)tuttiNcclGroupEnd();
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  /// Runs the calls. If one of them is invalid, runs none and returns the first error.
  Status end() {
    open_ = false;
    return to_status(tuttiNcclGroupEnd());
  }

 private:
  bool open_ = true;
};

}  // namespace tutti
