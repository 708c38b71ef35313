// Whatever a peer sends, a handshake ends in kDone only with the key, and never reads or writes
// outside its buffers. The first byte chooses role and key mode; the rest is the peer's bytes, fed
// in pieces.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "src/wire/handshake.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using tutti::Handshake;
  if (size == 0) return 0;
  tutti::HandshakeOptions options;
  options.role =
      (data[0] & 1) != 0 ? tutti::HandshakeRole::kInitiator : tutti::HandshakeRole::kResponder;
  const tutti::Key key = tutti::random_key();
  if ((data[0] & 2) != 0) options.key = key;
  if (options.role == tutti::HandshakeRole::kInitiator) options.key = key;
  Handshake handshake(options);
  auto rest = std::as_bytes(std::span(data + 1, size - 1));
  const std::size_t piece = 1 + (data[0] >> 2);
  while (!rest.empty()) {
    const auto now = rest.first(std::min(piece, rest.size()));
    if (handshake.feed(now) > now.size()) std::abort();
    if (handshake.state() == Handshake::State::kNeedsKey) {
      handshake.choose(key, {.token = 1, .rank = 0, .group = handshake.claimed().group});
    }
    handshake.sent(handshake.output().size());
    rest = rest.subspan(now.size());
  }
  if (handshake.state() == Handshake::State::kDone) std::abort();  // nobody guessed a fresh key
  return 0;
}
