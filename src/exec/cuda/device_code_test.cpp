#include "src/exec/cuda/device_code.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <span>
#include <vector>

#include <device_sources.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::exec::cuda {
namespace {

using ::testing::HasSubstr;

/// A file in a folder that is removed with it.
class DeviceCodeFile : public ::testing::Test {
 protected:
  DeviceCodeFile() {
    std::string pattern = (std::filesystem::temp_directory_path() / "device_code_XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~DeviceCodeFile() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& text) {
    std::string path = (folder_ / "code").string();
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

  std::filesystem::path folder_;
};

const std::string kFatbin = "\x50\xed\x55\xba and more";
const std::string kOwnTrailer = std::string("TUTTI DEVICE 01 ") + TUTTI_DEVICE_SOURCES;

TEST_F(DeviceCodeFile, OfTheSameSourcesIsTakenWithoutItsTrailer) {
#if defined(TUTTI_SANITIZED)
  GTEST_SKIP() << "builds with sanitizers read no file";
#endif
  const auto code = load_device_code(file(kFatbin + kOwnTrailer));
  ASSERT_TRUE(code) << code.error().what;
  EXPECT_EQ(code->size(), kFatbin.size());
}

TEST_F(DeviceCodeFile, OfOtherSourcesOrOtherKindsIsRefusedByName) {
#if defined(TUTTI_SANITIZED)
  GTEST_SKIP() << "builds with sanitizers read no file";
#endif
  const auto refusal = [this](const std::string& text) {
    const auto code = load_device_code(file(text));
    return code ? "taken" : code.error().what;
  };
  std::string other = kOwnTrailer;
  other.back() = other.back() == '0' ? '1' : '0';
  EXPECT_THAT(refusal(kFatbin + other), HasSubstr("other sources"));
  EXPECT_THAT(refusal(kFatbin), HasSubstr("cut short"));
  EXPECT_THAT(refusal("x" + kFatbin + kOwnTrailer), HasSubstr("no device code"));
  EXPECT_THAT(refusal(""), HasSubstr("no device code"));
  EXPECT_THAT(refusal(kOwnTrailer), HasSubstr("no device code"));
  const auto absent = load_device_code((folder_ / "absent").string());
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, Code::kUnavailable);
  EXPECT_THAT(absent.error().what, HasSubstr("absent"));
}

TEST(DeviceCode, OfThisBuildIsFoundAndIsItsOwn) {
  const std::string path = device_code_path();
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "this build has no device code at " << path;
  const auto code = load_device_code(path);
  ASSERT_TRUE(code) << code.error().what;
  EXPECT_GT(code->size(), 1000U);
}

/// A part of a fatbin, as cuModuleLoadData chooses among them.
struct FatbinPart {
  enum Kind : std::uint16_t { kPtx = 1, kMachineCode = 2 };
  std::uint16_t kind = 0;
  std::uint32_t architecture = 0;  ///< 90: sm_90 or compute_90
  std::uint64_t flags = 0;
};
// Older drivers (before CUDA 12.4) decompress LZ4 alone.
constexpr std::uint64_t kCompressedByZstd = 0x8000;

/// What its headers say. Offsets as seen in what nvcc 13 writes.
std::vector<FatbinPart> parts_of(std::span<const std::byte> fatbin) {
  const auto at = [&]<class Value>(std::size_t offset, Value value) {
    if (offset + sizeof value <= fatbin.size())
      std::memcpy(&value, fatbin.data() + offset, sizeof value);
    return value;
  };
  std::vector<FatbinPart> parts;
  const auto header = at(6, std::uint16_t{0});
  const std::size_t end = header + at(8, std::uint64_t{0});
  for (std::size_t part = header; part + 48 <= std::min(end, fatbin.size());) {
    parts.push_back({at(part, std::uint16_t{0}), at(part + 28, std::uint32_t{0}),
                     at(part + 40, std::uint64_t{0})});
    const auto own_header = at(part + 4, std::uint32_t{0});
    if (own_header == 0) break;
    part += own_header + at(part + 8, std::uint64_t{0});
  }
  return parts;
}

TEST(DeviceCode, IsForTheGpusThatTheDocsPromiseAndCompressedAsOlderDriversReadIt) {
  const std::string path = device_code_path();
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "this build has no device code at " << path;
  const auto code = load_device_code(path);
  ASSERT_TRUE(code) << code.error().what;
  std::set<std::uint32_t> machine_code, ptx;
  for (const FatbinPart& part : parts_of(*code)) {
    EXPECT_EQ(part.flags & kCompressedByZstd, 0U) << part.architecture;
    (part.kind == FatbinPart::kPtx ? ptx : machine_code).insert(part.architecture);
  }
  EXPECT_EQ(machine_code, (std::set<std::uint32_t>{80, 90, 100}));
  EXPECT_EQ(ptx, (std::set<std::uint32_t>{100}));
}

TEST(DeviceCode, HasAKernelOfEachKindForEachType) {
  EXPECT_EQ(interpret_kernel(DataType::kFloat32), "tutti_interpret_float");
  EXPECT_EQ(combine_kernel(DataType::kFloat8e4m3), "tutti_combine_f8e4m3");
}

}  // namespace
}  // namespace tutti::exec::cuda
