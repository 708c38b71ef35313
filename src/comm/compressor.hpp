// A compression with what it keeps between calls. Users make one for a series of calls;
// TUTTI_COMPRESS makes one for each collective that it names.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/codec/compression.hpp"
#include "src/comm/call.hpp"
#include "src/exec/launch.hpp"
#include "src/transport/transport.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti {

/// Resource. Calls that use it must not overlap; any thread may ask for its errors between them.
class Compressor : public std::enable_shared_from_this<Compressor> {
 public:
  /// Who asks for it: a program, with a handle, or TUTTI_COMPRESS.
  enum class Origin : std::uint8_t { kHandle, kSetting };
  explicit Compressor(codec::Compression compression, Origin origin = Origin::kHandle)
      : compression_(std::move(compression)),
        origin_(origin),
        code_(codec::code_of(compression_, origin == Origin::kSetting)) {}

  [[nodiscard]] const codec::Compression& compression() const { return compression_; }
  /// For CallSignature::compression.
  [[nodiscard]] std::uint32_t code() const { return code_; }
  /// Whether the inputs of a reduction are multiplied by a factor, be it 1: a program may scale
  /// them on some ranks alone, and averages are sums of parts. All ranks answer alike.
  [[nodiscard]] bool scales(ReduceOp op) const {
    return origin_ == Origin::kHandle || op == ReduceOp::kAvg;
  }

  /// Whose errors it keeps.
  struct Series {
    std::uint64_t communicator = 0;
    Rank rank = 0;
    std::int32_t size = 0;
    CallSignature call;
    friend bool operator==(const Series&, const Series&) = default;
  };
  /// An error where a call of the series could not begin now, because of its errors or what is
  /// owed. No call runs or waits.
  [[nodiscard]] Status check(const Series& series) const;
  /// Begins a call that encodes `elements` values at this rank. What it returns is valid until the
  /// next call begins. With feedback, all calls must be of one series: kInvalidUsage otherwise.
  Result<exec::Coding> begin(const Series& series, std::size_t elements);

  /// Of the next call: calls of a number, a seed and a rank round alike.
  void set_call_number(std::uint64_t number);

  /// How long this rank's calls have encoded, decoded and added up so far.
  [[nodiscard]] Nanos busy() const { return busy_.get(); }
  [[nodiscard]] exec::BusyTime& busy_time() { return busy_; }

  /// What this rank owes, in the order of the elements that it encodes; empty before the first
  /// call.
  [[nodiscard]] std::vector<float> errors() const;
  [[nodiscard]] std::size_t error_count() const;
  /// Copies them. kInvalidArgument: `into` is not as long.
  Status copy_errors(std::span<float> into) const;
  /// Replaces them, before the first call or between two of them. kInvalidArgument where a series
  /// has another number.
  Status set_errors(std::span<const float> errors);
  /// The next call, an all-reduce of as many elements, adds this to the rank's input, after that
  /// was scaled: what move_errors() says. Only with feedback.
  Status owe(std::span<const float> values);
  /// What owe() said, once; empty: nothing.
  [[nodiscard]] std::vector<float> take_owed();
  /// Forgets errors and series: the next call may be any.
  void reset();

 private:
  [[nodiscard]] Status check_locked(const Series& series) const;
  [[nodiscard]] Status check_feedback() const;

  const codec::Compression compression_;
  const Origin origin_;
  const std::uint32_t code_;
  mutable std::mutex mutex_;
  std::optional<Series> series_;
  std::uint64_t calls_ = 0;
  exec::BusyTime busy_;
  std::vector<float> errors_, owed_;
};

/// Whether a call scales the inputs of a reduction.
inline bool scales_input(const Call& call) {
  if (!reduces(call.collective)) return false;
  return call.op == ReduceOp::kPreMulSum ||
         (call.compressor != nullptr && call.compressor->scales(call.op));
}

/// The format in which the data of a call travels; null where that would take no fewer bytes.
std::shared_ptr<const codec::Format> wire_of(const Call& call);

/// What rank `rank` of `new_ranks` is to owe() at first, where `errors[r]` is what old rank r owed
/// for a vector of moved.size() elements, such that the sum over ranks stays: each rank takes a
/// part of the vector over from all. kInvalidArgument where errors are no whole vectors.
Status move_errors(std::span<const std::span<const float>> errors, Rank rank,
                   std::int32_t new_ranks, std::span<float> moved);

/// One part of TUTTI_COMPRESS.
struct AskedCompression {
  Collective collective = Collective::kAllReduce;
  codec::Compression compression;
};
/// "all_reduce:int8:block=128,reduce_scatter:int4". kInvalidArgument names what is wrong; errors
/// cannot be fed back, because nobody could save them.
Result<std::vector<AskedCompression>> parse_compress_setting(std::string_view text);

/// Whether a call can be compressed: sums, averages and copies of float32, float16 and bfloat16.
bool is_compressible(const Call& call);

/// What TUTTI_COMPRESS asks for on one communicator. Resource.
class AskedCompressors {
 public:
  explicit AskedCompressors(std::vector<AskedCompression> asked);
  /// For `call`, which has none of its own; null: none.
  [[nodiscard]] Compressor* find(const Call& call) {
    return compressors_.empty() ? nullptr : find_among(call);
  }
  /// Any thread may ask.
  [[nodiscard]] bool has_one_for(const Call& call) const {
    return is_compressible(call) && compressors_.contains(call.collective);
  }

 private:
  Compressor* find_among(const Call& call);

  std::map<Collective, Compressor> compressors_;
};

}  // namespace tutti
