#include "src/exec/cuda/device_code.hpp"

#include <cstdlib>
#include <memory>

#include <device_sources.hpp>
#include <dlfcn.h>
#include <unistd.h>

#include "src/base/result.hpp"
#include "src/base/whole_file.hpp"

namespace tutti::exec::cuda {
namespace {

constexpr std::string_view kMark = "TUTTI DEVICE 01 ";
constexpr std::string_view kSources = TUTTI_DEVICE_SOURCES;
constexpr std::size_t kTrailer = kMark.size() + kSources.size();
constexpr std::string_view kFatbinMagic = "\x50\xed\x55\xba";
constexpr std::size_t kMostFileBytes = std::size_t{256} << 20U;

/// The folder of the file that was mapped for this code, without links; empty if nobody knows.
std::string own_folder() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&own_folder), &info) == 0 || info.dli_fname == nullptr)
    return "";
  const std::unique_ptr<char, void (*)(void*)> path(::realpath(info.dli_fname, nullptr), std::free);
  if (path == nullptr) return "";
  const std::string_view whole = path.get();
  return std::string(whole.substr(0, whole.rfind('/')));
}

}  // namespace

std::string device_code_path() {
  const std::string folder = own_folder();
  std::string beside = folder + "/" + std::string(kDeviceCodeFile);
  if (::access(beside.c_str(), F_OK) == 0) return beside;
  std::string in_lib = folder + "/../lib/" + std::string(kDeviceCodeFile);
  return ::access(in_lib.c_str(), F_OK) == 0 ? in_lib : beside;
}

Result<std::vector<std::byte>> load_device_code(const std::string& path) {
#if defined(TUTTI_SANITIZED)
  static_cast<void>(path);
  return std::vector<std::byte>(1);
#else
  const Result<std::string> read = read_file(path, kMostFileBytes);
  if (!read) return read.error();
  const std::string_view file = *read;
  if (!file.starts_with(kFatbinMagic) || file.size() < kFatbinMagic.size() + kTrailer ||
      !file.substr(file.size() - kTrailer).starts_with(kMark))
    return make_error(Code::kInvalidArgument, "{} is no device code of Tutti, or was cut short",
                      path);
  if (!file.ends_with(kSources))
    return make_error(Code::kInvalidArgument,
                      "{} was compiled from other sources than this library: build the target "
                      "device_code, or install both from one build",
                      path);
  const auto* const bytes = reinterpret_cast<const std::byte*>(file.data());
  return std::vector<std::byte>(bytes, bytes + file.size() - kTrailer);
#endif
}

std::string interpret_kernel(DataType type) {
  return "tutti_interpret_" + std::string(name_of(type));
}

std::string combine_kernel(DataType type) { return "tutti_combine_" + std::string(name_of(type)); }

}  // namespace tutti::exec::cuda
