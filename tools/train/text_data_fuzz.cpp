// Any bytes are refused or data whose own file means the same.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tools/train/text_data.hpp"
#include "training/crc32c.hpp"

namespace {

/// Makes checksums right, which no mutation finds: the checks behind them are to be reached too.
void mend(std::string& file) {
  constexpr std::size_t kTextCrcAt = 32, kHeadCrcAt = 36, kHeadBytes = 40;
  if (file.size() < kHeadBytes) return;
  const auto put = [&](std::size_t at, std::string_view of) {
    const std::uint32_t crc = tutti::training::crc32c(std::as_bytes(std::span(of)));
    std::memcpy(file.data() + at, &crc, sizeof crc);
  };
  put(kTextCrcAt, std::string_view(file).substr(kHeadBytes));
  put(kHeadCrcAt, std::string_view(file).substr(0, kHeadCrcAt));
}

void read(std::string file) {
  using tutti::trainer::TextData;
  const auto data = TextData::parse(file);
  if (data && data->file() != file) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string file(reinterpret_cast<const char*>(data), size);
  read(file);
  mend(file);
  read(file);
  return 0;
}
