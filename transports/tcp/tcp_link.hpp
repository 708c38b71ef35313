// A connected TCP socket as a ByteLink.
#pragma once

#include "src/base/clock.hpp"
#include "src/base/fd.hpp"
#include "src/wire/byte_link.hpp"

namespace tutti {

class TcpLink final : public ByteLink {
 public:
  /// kShared: other links carry the same messages, so this one takes no more than it is about to
  /// send, however large its buffer.
  enum class Load : std::uint8_t { kAll, kShared };

  /// `fd` is connected and non-blocking.
  TcpLink(Fd fd, Nanos liveness, Load load = Load::kAll);

  Result<std::size_t> write(std::span<const iovec> pieces) override;
  Result<std::size_t> read(std::span<const iovec> pieces) override;
  Result<bool> check() override;
  /// One read for a message of up to 8 KiB with its header and what little comes with it; of larger
  /// ones not so much that copying it on costs more than another read.
  [[nodiscard]] std::size_t read_ahead() const override { return (8 << 10) + 256; }
  [[nodiscard]] int poll_fd() const override { return fd_.get(); }
  bool finish() override;
  void shutdown() override;

 private:
  [[nodiscard]] bool host_is_silent(TimePoint now);

  const Fd fd_;
  const Nanos liveness_;
  std::uint32_t checks_ = 0;
  TimePoint next_look_;
  std::uint64_t acknowledged_ = 0;  ///< bytes, at the last look
  TimePoint waiting_since_;         ///< the first look at what has waited since
};

}  // namespace tutti
