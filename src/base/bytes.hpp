// Little-endian values in byte buffers: a writer that appends, and a reader that never reads past
// the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "src/base/blob.hpp"

namespace tutti {

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

template <class Enum>
  requires std::is_enum_v<Enum>
constexpr auto to_underlying(Enum value) {
  return static_cast<std::underlying_type_t<Enum>>(value);
}

/// Appends to a Blob.
class ByteWriter {
 public:
  explicit ByteWriter(Blob& out) : out_(out) {}

  template <class T>
    requires std::is_integral_v<T>
  ByteWriter& put(T value) {
    auto bits = static_cast<std::make_unsigned_t<T>>(value);
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      out_.push_back(static_cast<std::byte>(bits & 0xff));
      if constexpr (sizeof(T) > 1) bits >>= 8;
    }
    return *this;
  }
  ByteWriter& bytes(std::span<const std::byte> data) {
    out_.insert(out_.end(), data.begin(), data.end());
    return *this;
  }
  /// u32 length, then the bytes.
  ByteWriter& sized(std::span<const std::byte> data) {
    put(static_cast<std::uint32_t>(data.size()));
    return bytes(data);
  }

 private:
  Blob& out_;
};

/// Reads untrusted bytes. A read past the end yields zeros and makes ok() false from then on, so
/// callers read a whole layout and check once.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> data) : data_(data) {}

  template <class T>
    requires std::is_integral_v<T>
  T get() {
    const auto raw = bytes(sizeof(T));
    std::make_unsigned_t<T> bits = 0;
    for (std::size_t i = raw.size(); i-- > 0;) {
      if constexpr (sizeof(T) > 1) bits <<= 8;
      bits |= static_cast<std::make_unsigned_t<T>>(raw[i]);
    }
    return static_cast<T>(bits);
  }
  /// The next `count` bytes; empty when fewer are left.
  std::span<const std::byte> bytes(std::size_t count) {
    if (count > data_.size()) {
      ok_ = false;
      data_ = {};
      return {};
    }
    const auto head = data_.first(count);
    data_ = data_.subspan(count);
    return head;
  }
  /// Reads what ByteWriter::sized wrote, at most `limit` bytes.
  std::span<const std::byte> sized(std::size_t limit) {
    const auto count = get<std::uint32_t>();
    if (count > limit) ok_ = false;
    return ok_ ? bytes(count) : std::span<const std::byte>{};
  }
  std::string text(std::size_t limit) {
    const auto raw = sized(limit);
    return {reinterpret_cast<const char*>(raw.data()), raw.size()};
  }

  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] std::size_t left() const { return data_.size(); }
  /// Everything was read without an error and nothing is left.
  [[nodiscard]] bool complete() const { return ok_ && data_.empty(); }

 private:
  std::span<const std::byte> data_;
  bool ok_ = true;
};

}  // namespace tutti
