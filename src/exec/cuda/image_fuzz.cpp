// Any bytes are an image that check_image() accepts, or an error that says something; so they are
// behind a header that is right in all but the numbers that matter.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "src/exec/cuda/image.hpp"

namespace {

void check(const std::vector<std::byte>& image) {
  const auto status = tutti::exec::cuda::check_image(image);
  if (!status && status.error().what.empty()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::byte> image(size);
  if (size > 0) std::memcpy(image.data(), data, size);
  check(image);
  if (size < sizeof(tutti::device::Header)) return 0;
  tutti::device::Header header;
  std::memcpy(&header, data, sizeof header);
  header.magic = tutti::device::Header::kMagic;
  header.image_bytes = static_cast<std::uint32_t>(size);
  header.ranks = 1 + header.ranks % tutti::device::kMaxRanks;
  header.rank %= header.ranks;
  header.arithmetic.type = tutti::DataType::kFloat32;
  header.arithmetic.op = tutti::ReduceOp::kSum;
  header.arithmetic.divisor = 1;
  for (auto* section : {&header.ops, &header.passes, &header.locations, &header.waits,
                        &header.pushes, &header.rank_numbers}) {
    section->offset = (sizeof header + section->offset % 64 * 8) & ~std::uint32_t{7};
    section->count %= 16;
  }
  std::memcpy(image.data(), &header, sizeof header);
  check(image);
  return 0;
}
