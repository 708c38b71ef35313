// tutti::Compression: how calls send floats in fewer bytes. RAII over tuttiCompression_t.
//
// Header-only; link libtutti.so. The contracts are those of tutti/compression.h.
//
//   auto int8 = tutti::Compression::create("int8:block=128");
//   if (!int8) { ... int8.error().what ... }
//   int8->all_reduce<float>(*comm, mine, sum);
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tutti/communicator.hpp"
#include "tutti/compression.h"

namespace tutti {

namespace detail {

/// Whether `elements` are a block of each rank, of these sizes.
inline bool holds_blocks(const Comm& comm, std::span<const std::size_t> counts,
                         std::size_t elements) {
  std::size_t sum = 0;
  for (const std::size_t count : counts) sum += count;
  return counts.size() == static_cast<std::size_t>(comm.size()) && sum == elements;
}

}  // namespace detail

/// Resource, movable. Calls that use it must not overlap.
class Compression {
 public:
  /// See tuttiCompressionCreate.
  static Result<Compression> create(const char* how) {
    tuttiCompression_t handle = nullptr;
    if (const auto code = tuttiCompressionCreate(&handle, how); code != ncclSuccess)
      return last_error(code);
    return Compression(handle);
  }
  ~Compression() {
    if (handle_ != nullptr) (void)tuttiCompressionDestroy(handle_);
  }
  Compression(Compression&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Compression& operator=(Compression&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  Compression(const Compression&) = delete;
  Compression& operator=(const Compression&) = delete;

  /// Multiplied into a reduction.
  struct Scales {
    float before = 1, after = 1;
  };

  /// The calls are those of Comm. Here: out = op over the `in` of all ranks. Spans have equal
  /// length; pass the same span twice for in place.
  template <Element T>
  Status all_reduce(const Comm& comm, std::span<const T> in, std::span<T> out,
                    ReduceOp op = ReduceOp::kSum, Scales scales = {.before = 1, .after = 1},
                    const Stream* stream = nullptr) {
    if (in.size() != out.size()) return detail::mismatch("all_reduce: the spans differ in length");
    return to_status(tuttiAllReduceCompressed(
                         in.data(), out.data(), in.size(), detail::raw_type<T>(), detail::raw(op),
                         scales.before, scales.after, handle_, comm.native(), detail::raw(stream)),
                     comm.native());
  }
  template <Element T>
  Status reduce_scatter(const Comm& comm, std::span<const T> in, std::span<T> out,
                        ReduceOp op = ReduceOp::kSum, Scales scales = {.before = 1, .after = 1},
                        const Stream* stream = nullptr) {
    if (in.size() != out.size() * static_cast<std::size_t>(comm.size()))
      return detail::mismatch("reduce_scatter: in must hold size() blocks of out");
    return to_status(tuttiReduceScatterCompressed(
                         in.data(), out.data(), out.size(), detail::raw_type<T>(), detail::raw(op),
                         scales.before, scales.after, handle_, comm.native(), detail::raw(stream)),
                     comm.native());
  }
  template <Element T>
  Status all_gather(const Comm& comm, std::span<const T> in, std::span<T> out,
                    const Stream* stream = nullptr) {
    if (out.size() != in.size() * static_cast<std::size_t>(comm.size()))
      return detail::mismatch("all_gather: out must hold size() blocks of in");
    return to_status(
        tuttiAllGatherCompressed(in.data(), out.data(), in.size(), detail::raw_type<T>(), handle_,
                                 comm.native(), detail::raw(stream)),
        comm.native());
  }
  template <Element T>
  Status reduce(const Comm& comm, std::span<const T> in, std::span<T> out, Rank root,
                ReduceOp op = ReduceOp::kSum, Scales scales = {.before = 1, .after = 1},
                const Stream* stream = nullptr) {
    if (comm.rank() == root && in.size() != out.size())
      return detail::mismatch("reduce: the root's spans differ in length");
    return to_status(tuttiReduceCompressed(in.data(), out.data(), in.size(), detail::raw_type<T>(),
                                           detail::raw(op), root, scales.before, scales.after,
                                           handle_, comm.native(), detail::raw(stream)),
                     comm.native());
  }
  template <Element T>
  Status all_to_all(const Comm& comm, std::span<const T> in, std::span<T> out,
                    const Stream* stream = nullptr) {
    const auto ranks = static_cast<std::size_t>(comm.size());
    if (out.size() != in.size() || in.size() % ranks != 0)
      return detail::mismatch("all_to_all: both spans must hold size() equal blocks");
    return to_status(
        tuttiAlltoAllCompressed(in.data(), out.data(), in.size() / ranks, detail::raw_type<T>(),
                                handle_, comm.native(), detail::raw(stream)),
        comm.native());
  }
  template <Element T>
  Status all_gather_v(const Comm& comm, std::span<const T> in, std::span<T> out,
                      std::span<const std::size_t> counts, const Stream* stream = nullptr) {
    if (!detail::holds_blocks(comm, counts, out.size()))
      return detail::mismatch("all_gather_v: out must hold the size() blocks that counts names");
    return to_status(tuttiAllGathervCompressed(in.data(), in.size(), out.data(), counts.data(),
                                               nullptr, detail::raw_type<T>(), handle_,
                                               comm.native(), detail::raw(stream)),
                     comm.native());
  }
  template <Element T>
  Status reduce_scatter_v(const Comm& comm, std::span<const T> in, std::span<T> out,
                          std::span<const std::size_t> counts, ReduceOp op = ReduceOp::kSum,
                          Scales scales = {.before = 1, .after = 1},
                          const Stream* stream = nullptr) {
    if (!detail::holds_blocks(comm, counts, in.size()))
      return detail::mismatch("reduce_scatter_v: in must hold the size() blocks that counts names");
    return to_status(
        tuttiReduceScattervCompressed(in.data(), counts.data(), nullptr, out.data(), out.size(),
                                      detail::raw_type<T>(), detail::raw(op), scales.before,
                                      scales.after, handle_, comm.native(), detail::raw(stream)),
        comm.native());
  }
  /// Without errors=feedback.
  template <Element T>
  Status all_to_all_v(const Comm& comm, std::span<const T> in,
                      std::span<const std::size_t> send_counts, std::span<T> out,
                      std::span<const std::size_t> recv_counts, const Stream* stream = nullptr) {
    if (!detail::holds_blocks(comm, send_counts, in.size()) ||
        !detail::holds_blocks(comm, recv_counts, out.size()))
      return detail::mismatch(
          "all_to_all_v: each span must hold the size() blocks that its counts name");
    return to_status(tuttiAllToAllvCompressed(in.data(), send_counts.data(), nullptr, out.data(),
                                              recv_counts.data(), nullptr, detail::raw_type<T>(),
                                              handle_, comm.native(), detail::raw(stream)),
                     comm.native());
  }
  template <Element T>
  Status broadcast(const Comm& comm, std::span<T> data, Rank root, const Stream* stream = nullptr) {
    return to_status(
        tuttiBroadcastCompressed(data.data(), data.data(), data.size(), detail::raw_type<T>(), root,
                                 handle_, comm.native(), detail::raw(stream)),
        comm.native());
  }

  /// What `count` values become.
  [[nodiscard]] Result<tuttiEncodedSize> size_of(std::size_t count) const {
    tuttiEncodedSize size = {};
    if (const auto code = tuttiCompressionSize(handle_, count, &size); code != ncclSuccess)
      return last_error(code);
    return size;
  }
  /// See tuttiCompressionSetCallNumber.
  Status set_call_number(std::uint64_t number) {
    return to_status(tuttiCompressionSetCallNumber(handle_, number));
  }

  /// How long this rank's calls have encoded, decoded and added up so far. Any thread.
  [[nodiscard]] double busy_seconds() const {
    double seconds = 0;
    (void)tuttiCompressionBusySeconds(handle_, &seconds);
    return seconds;
  }

  /// What this rank owes, and the same for going on elsewhere. See tutti/compression.h.
  [[nodiscard]] Result<std::vector<float>> errors() const {
    std::size_t count = 0;
    if (const auto code = tuttiCompressionErrorCount(handle_, &count); code != ncclSuccess)
      return last_error(code);
    std::vector<float> errors(count);
    if (const auto code = tuttiCompressionGetErrors(handle_, errors.data(), count);
        code != ncclSuccess)
      return last_error(code);
    return errors;
  }
  Status set_errors(std::span<const float> errors) {
    return to_status(tuttiCompressionSetErrors(handle_, errors.data(), errors.size()));
  }
  /// The next all-reduce adds these to this rank's input. See tuttiCompressionMoveErrors.
  Status owe(std::span<const float> values) {
    return to_status(tuttiCompressionOwe(handle_, values.data(), values.size()));
  }
  Status reset() { return to_status(tuttiCompressionReset(handle_)); }

  /// Its format with all settings.
  [[nodiscard]] std::string text() const {
    char text[256] = "";
    (void)tuttiCompressionText(handle_, text, sizeof text);
    return text;
  }
  /// The handle for the C API. This object keeps ownership.
  [[nodiscard]] tuttiCompression_t native() const { return handle_; }

 private:
  explicit Compression(tuttiCompression_t handle) : handle_(handle) {}

  tuttiCompression_t handle_;
};

}  // namespace tutti
