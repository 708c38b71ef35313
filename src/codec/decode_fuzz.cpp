// Fuzz target: any name makes a format or an error; any bytes are decoded within their bounds.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "src/codec/make_format.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti::codec;
  if (size < 4) return 0;
  const std::size_t name_size = std::min<std::size_t>(data[0] % 40, size - 3);
  const std::size_t count = data[1] | data[2] << 8;
  const std::string_view text(reinterpret_cast<const char*>(data) + 3, name_size);
  auto format = make_format(text);
  if (!format) format = make_format(known_formats()[data[0] % known_formats().size()].name);
  if (!format) std::abort();
  if (!make_format((*format)->traits().name)) std::abort();

  std::vector<std::byte> bytes((*format)->bytes(count));
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(data[3 + (size > 3 ? i % (size - 3) : 0)]);
  std::vector<float> values(count);
  if (!(*format)->decode(bytes.data(), count, values.data())) return 0;
  (*format)->encode(values.data(), count, {}, bytes.data());
  if (!(*format)->decode(bytes.data(), count, values.data())) std::abort();
  return 0;
}
