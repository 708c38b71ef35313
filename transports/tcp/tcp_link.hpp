// A connected TCP socket as a ByteLink.
#pragma once

#include "src/base/clock.hpp"
#include "src/base/fd.hpp"
#include "src/wire/byte_link.hpp"

namespace tutti {

class TcpLink final : public ByteLink {
 public:
  /// kShared: other links carry the same messages, so this link takes no more than it is about to
  /// send, however large its buffer is.
  enum class Load : std::uint8_t { kAll, kShared };

  /// `fd` must be connected and non-blocking.
  TcpLink(Fd fd, Nanos liveness, Load load = Load::kAll);

  Result<std::size_t> write(std::span<const iovec> pieces) override;
  Result<std::size_t> read(std::span<const iovec> pieces) override;
  Result<bool> check() override;
  /// Lets one read take a message of up to 8 KiB with its header and a little more. Reading further
  /// ahead would cost more in copying than a second recv().
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
  std::uint64_t acknowledged_ = 0;  ///< bytes acknowledged, as of the last check
  TimePoint waiting_since_;         ///< time of the first check of data that has waited since
};

}  // namespace tutti
