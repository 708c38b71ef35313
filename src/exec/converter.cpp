#include "src/exec/converter.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <tuple>

#include "src/codec/make_format.hpp"

namespace tutti::exec {
namespace {

constexpr std::size_t kTileElements = 4096;
/// What the tiles hold: sources that are decoded and not added yet, their sum, and the result in
/// the call's type.
constexpr std::size_t kDecoded = 4, kSum = kDecoded, kRounded = kSum + 1, kTiles = kRounded + 1;

/// How elements of a type that is_convertible() are kept; null for float32.
const codec::Format* format_of(DataType type) {
  const auto make = [](std::string_view name) { return *codec::make_format(name); };
  static const std::shared_ptr<const codec::Format> kHalf = make("fp16"), kBfloat = make("bf16");
  if (type == DataType::kFloat16) return kHalf.get();
  return type == DataType::kBfloat16 ? kBfloat.get() : nullptr;
}

const std::byte* bytes_of(const float* values) {
  return reinterpret_cast<const std::byte*>(values);
}
std::byte* bytes_of(float* values) { return reinterpret_cast<std::byte*>(values); }

/// Where element `first`, which begins a block, lies.
std::size_t offset(const codec::Format* format, std::size_t first) {
  return format == nullptr ? first * sizeof(float) : format->bytes(first);
}

}  // namespace

bool is_convertible(DataType type) {
  return type == DataType::kFloat32 || type == DataType::kFloat16 || type == DataType::kBfloat16;
}

struct Converter::Job {
  Reduction reduction;  ///< of float32
  const codec::Format* elements = nullptr;
  std::span<const CodedSource> sources;
  std::span<const CodedDestination> destinations;
  Encoding encoding;

  [[nodiscard]] const codec::Format* format(const codec::Format* given) const {
    return given != nullptr ? given : elements;
  }
};

Result<bool> Converter::combine(const Reduction& reduction, std::span<const CodedSource> sources,
                                std::span<const CodedDestination> destinations, std::size_t count,
                                const Encoding& encoding) {
  Job job{reduction, format_of(reduction.type), sources, destinations, encoding};
  job.reduction.type = DataType::kFloat32;
  if (encoding.factor) {
    std::memcpy(job.reduction.scalar, &*encoding.factor, sizeof(float));
  } else if (job.elements != nullptr) {
    float factor = 0;
    std::ignore = job.elements->decode(reduction.scalar, 1, &factor);
    std::memcpy(job.reduction.scalar, &factor, sizeof factor);
  }
  std::size_t most = kTileElements;
  for (const CodedSource& source : sources)
    if (source.format != nullptr) most = std::max<std::size_t>(most, source.format->traits().block);
  for (const CodedDestination& destination : destinations)
    if (destination.format != nullptr)
      most = std::max<std::size_t>(most, destination.format->traits().block);
  if (most > tile_elements_) {
    tiles_ = reinterpret_cast<float*>(memory_.get(kTiles * most * sizeof(float)));
    tile_elements_ = tiles_ != nullptr ? most : 0;
    if (tiles_ == nullptr)
      return make_error(Code::kUnavailable, "no memory for tiles of {} values", most);
  }
  bool valid = true;
  for (std::size_t first = 0; first < count; first += tile_elements_)
    valid &= run_tile(job, first, std::min(tile_elements_, count - first));
  return valid;
}

/// The float32 sum of all sources: where one of them lies, or in a tile.
const float* Converter::add_up(const Job& job, std::size_t first, std::size_t count, bool& valid) {
  std::array<const std::byte*, tutti::kMaxSources> ready{};
  std::size_t waiting = 0, decoded = 0;
  std::uint64_t scaled = 0;  // of those that are ready
  const Destination sum{bytes_of(tile(kSum)), Stores::kCached};
  const auto flush = [&](std::int32_t divisor) {
    if (waiting == 1 && divisor == 0 && scaled == 0) return;
    Reduction reduction = job.reduction;
    reduction.divisor = divisor;
    reduce(reduction, {ready.data(), waiting}, scaled, {&sum, 1}, count);
    ready[0] = sum.data;
    waiting = 1;
    decoded = 0;
    scaled = 0;
  };
  for (const CodedSource& source : job.sources) {
    const codec::Format* const format = job.format(source.format);
    const std::byte* const data = source.data + offset(format, first);
    if (format != nullptr && decoded == kDecoded) flush(0);
    if (source.scaled) scaled |= std::uint64_t{1} << waiting;
    if (format == nullptr) {
      ready[waiting++] = data;
      continue;
    }
    float* const values = tile(decoded++);
    valid &= format->decode(data, count, values);
    ready[waiting++] = bytes_of(values);
  }
  flush(job.reduction.divisor);
  return reinterpret_cast<const float*>(ready[0]);
}

bool Converter::run_tile(const Job& job, std::size_t first, std::size_t count) {
  // Destinations of one kind get the same bytes: made for the first, copied for the others.
  std::array<Destination, tutti::kMaxDestinations> plain, coded;
  std::size_t plains = 0, codes = 0;
  const codec::Format* code = nullptr;
  for (const CodedDestination& destination : job.destinations) {
    const codec::Format* const format = job.format(destination.format);
    const Destination place{destination.to.data + offset(format, first), destination.to.stores};
    if (destination.format == nullptr) {
      plain[plains++] = place;
    } else {
      coded[codes++] = place;
      code = destination.format;
    }
  }
  const auto copy_to = [](const std::byte* from, std::span<const Destination> to,
                          std::size_t bytes) {
    if (!to.empty()) copy_bytes(from, to, bytes);
  };
  const CodedSource& source = job.sources.front();
  const std::byte* const source_bytes = source.data + offset(job.format(source.format), first);
  const bool is_copy = job.sources.size() == 1 && job.reduction.divisor == 0 && !source.scaled;
  if (is_copy && source.format != nullptr && job.elements == nullptr && plains == 1 && codes == 0)
    return source.format->decode(source_bytes, count, reinterpret_cast<float*>(plain.front().data));
  if (is_copy && source.format == code && code != nullptr) {
    copy_to(source_bytes, {coded.data(), codes}, code->bytes(count));
    codes = 0;
    if (plains == 0) return true;
  }

  bool valid = true;
  const float* result = add_up(job, first, count, valid);
  if (job.elements == nullptr) {
    copy_to(bytes_of(result), {plain.data(), plains}, count * sizeof(float));
  } else {
    std::byte* const rounded = plains > 0 ? plain.front().data : bytes_of(tile(kRounded));
    job.elements->encode(result, count, {}, rounded);
    if (plains > 1)
      copy_to(rounded, std::span(plain.data(), plains).subspan(1), job.elements->bytes(count));
    if (codes > 0) valid &= job.elements->decode(rounded, count, tile(kSum));
    result = tile(kSum);
  }
  if (codes == 0) return valid;
  valid &= encode(job.encoding, result, first, count, *code, coded.front().data);
  copy_to(coded.front().data, std::span(coded.data(), codes).subspan(1), code->bytes(count));
  return valid;
}

bool Converter::encode(const Encoding& encoding, const float* values, std::size_t first,
                       std::size_t count, const codec::Format& format, std::byte* code) {
  codec::Rounding rounding = encoding.rounding;
  rounding.first += first;
  if (encoding.errors == nullptr) {
    format.encode(values, count, rounding, code);
    return true;
  }
  float* const errors = encoding.errors + first;
  float* const owed = tile(kSum);
  for (std::size_t i = 0; i < count; ++i) owed[i] = values[i] + errors[i];
  format.encode(owed, count, rounding, code);
  float* const sent = tile(kRounded);
  const bool valid = format.decode(code, count, sent);
  for (std::size_t i = 0; i < count; ++i) {
    const float off = owed[i] - sent[i];
    errors[i] = off - off == 0 ? off : 0;
  }
  return valid;
}

}  // namespace tutti::exec
