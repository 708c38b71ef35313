// A ByteLink for tests and fuzz targets: it reads a script and discards what is written to it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include "src/base/blob.hpp"
#include "src/base/result.hpp"
#include "src/wire/byte_link.hpp"
#include "src/wire/frames.hpp"

namespace tutti {

class ScriptedLink final : public ByteLink {
 public:
  struct Script {
    Blob input;
    std::size_t read = 0;
    bool shut = false;
    bool ended = false;           ///< the stream ends after the input
    int unfinished = 0;           ///< N: finish() first returns true at its Nth call
    bool deaf = false;            ///< writing fails
    std::size_t room = SIZE_MAX;  ///< for what is written
    int writes = 0;

    void append(std::span<const std::byte> bytes) {
      input.insert(input.end(), bytes.begin(), bytes.end());
    }
    /// The header, and as many zero bytes of payload as it announces.
    void append(const Frame& frame) {
      append(encode(frame));
      input.resize(input.size() + std::min<std::size_t>(frame.payload, kChunkBytes));
    }
  };

  explicit ScriptedLink(std::shared_ptr<Script> script) : script_(std::move(script)) {}

  Result<std::size_t> write(std::span<const iovec> pieces) override {
    ++script_->writes;
    if (script_->deaf) return make_error(Code::kPeerFailed, "nobody reads it");
    std::size_t bytes = 0;
    for (const iovec& piece : pieces) bytes += piece.iov_len;
    bytes = std::min(bytes, script_->room);
    script_->room -= bytes;
    return bytes;
  }
  Result<std::size_t> read(std::span<const iovec> pieces) override {
    std::size_t total = 0;
    if (script_->ended && script_->read == script_->input.size())
      return make_error(Code::kPeerFailed, "it ended");
    for (const iovec& piece : pieces) {
      const std::size_t bytes = std::min(piece.iov_len, script_->input.size() - script_->read);
      if (bytes > 0) std::memcpy(piece.iov_base, script_->input.data() + script_->read, bytes);
      script_->read += bytes;
      total += bytes;
    }
    return total;
  }
  Result<bool> check() override { return false; }
  [[nodiscard]] std::size_t read_ahead() const override { return 1000; }
  [[nodiscard]] int poll_fd() const override { return -1; }
  bool finish() override { return script_->unfinished == 0 || --script_->unfinished == 0; }
  void shutdown() override { script_->shut = true; }

 private:
  std::shared_ptr<Script> script_;
};

}  // namespace tutti
