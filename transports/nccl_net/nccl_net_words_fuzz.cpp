// Any message is an error, or has words that encode to the same bytes and show the secret.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "transports/nccl_net/control_message.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::uint64_t kCookie = 0x3030303030303030;
  const auto message = std::as_bytes(std::span(data, size));
  const auto words = tutti::nccl_net::decode_words(message, kCookie);
  if (!words) return 0;
  std::array<std::byte, tutti::nccl_net::kWordsBytes> again{};
  tutti::nccl_net::encode(*words, again);
  if (words->cookie != kCookie || !std::ranges::equal(again, message.first(again.size())))
    std::abort();
  return 0;
}
