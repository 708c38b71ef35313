#include "src/topo/detect/probe.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <system_error>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/fd.hpp"
#include "src/base/result.hpp"

namespace tutti::topo {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 20U;
constexpr std::size_t kMostNames = 65536;
constexpr const char* kHwlocLibrary = "libhwloc.so.15";  // hwloc 2, every release of it

Error cannot_read(const std::string& path, int os_errno) {
  return system_error(Code::kUnavailable, os_errno, fmt::format("cannot read {}", path));
}

// ---- hwloc, by its documented binary interface.

using HwlocTopology = struct hwloc_topology*;
struct Hwloc {
  int (*init)(HwlocTopology*) = nullptr;
  void (*destroy)(HwlocTopology) = nullptr;
  int (*load)(HwlocTopology) = nullptr;
  int (*export_xml)(HwlocTopology, char** text, int* bytes, unsigned long flags) = nullptr;
  void (*free_xml)(HwlocTopology, char* text) = nullptr;
};

template <class Entry>
bool load_entry(void* library, const char* name, Entry& entry) {
  entry = reinterpret_cast<Entry>(::dlsym(library, name));
  return entry != nullptr;
}

Result<std::string> export_xml(const Hwloc& hwloc, HwlocTopology topology) {
  if (hwloc.load(topology) != 0)
    return make_error(Code::kUnavailable, "hwloc cannot describe this machine");
  char* text = nullptr;
  int bytes = 0;
  if (hwloc.export_xml(topology, &text, &bytes, 0) != 0 || text == nullptr || bytes <= 0)
    return make_error(Code::kUnavailable, "hwloc cannot write its description as XML");
  std::string xml(text, static_cast<std::size_t>(bytes));
  hwloc.free_xml(topology, text);
  while (!xml.empty() && xml.back() == '\0') xml.pop_back();  // which hwloc counts
  return xml;
}

}  // namespace

Result<std::string> RealProbe::read_file(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file) return cannot_read(path, errno);
  struct stat about = {};
  if (::fstat(file.get(), &about) != 0) return cannot_read(path, errno);
  if (!S_ISREG(about.st_mode))
    return make_error(Code::kUnavailable, "cannot read {}: it is no regular file", path);
  std::string text;
  std::array<char, 4096> part{};
  while (text.size() < kMostBytes) {
    const ssize_t got = ::read(file.get(), part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return cannot_read(path, errno);
    if (got == 0) break;
    text.append(part.data(), static_cast<std::size_t>(got));
  }
  return text;
}

Result<std::vector<std::string>> RealProbe::list(const std::string& path) {
  std::error_code failure;
  std::vector<std::string> names;
  const std::filesystem::directory_iterator end;
  for (std::filesystem::directory_iterator entry(path, failure);
       !failure && entry != end && names.size() < kMostNames; entry.increment(failure))
    names.push_back(entry->path().filename());
  if (failure) return cannot_read(path, failure.value());
  std::ranges::sort(names);
  return names;
}

Result<std::string> RealProbe::link_target(const std::string& path) {
  std::error_code failure;
  std::string target = std::filesystem::read_symlink(path, failure);
  if (failure) return cannot_read(path, failure.value());
  return target;
}

Result<std::string> RealProbe::hwloc_xml() {
  const std::unique_ptr<void, int (*)(void*)> library(
      ::dlopen(kHwlocLibrary, RTLD_NOW | RTLD_LOCAL), ::dlclose);
  if (!library) return make_error(Code::kUnsupported, "{} is not installed", kHwlocLibrary);
  Hwloc hwloc;
  const bool complete =
      load_entry(library.get(), "hwloc_topology_init", hwloc.init) &&
      load_entry(library.get(), "hwloc_topology_destroy", hwloc.destroy) &&
      load_entry(library.get(), "hwloc_topology_load", hwloc.load) &&
      load_entry(library.get(), "hwloc_topology_export_xmlbuffer", hwloc.export_xml) &&
      load_entry(library.get(), "hwloc_free_xmlbuffer", hwloc.free_xml);
  HwlocTopology topology = nullptr;
  if (!complete || hwloc.init(&topology) != 0)
    return make_error(Code::kUnsupported, "{} does not start", kHwlocLibrary);
  auto xml = export_xml(hwloc, topology);
  hwloc.destroy(topology);
  return xml;
}

Result<std::vector<cuda::GpuFacts>> RealProbe::gpus() { return cuda::read_gpus(); }

Result<std::string> FilesProbe::hwloc_xml() {
  return make_error(Code::kUnsupported, "it takes too long to be asked here");
}

Result<std::vector<cuda::GpuFacts>> FilesProbe::gpus() {
  return make_error(Code::kUnsupported, "NVML would wake it and is not asked here");
}

}  // namespace tutti::topo
