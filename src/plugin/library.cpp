#include "src/plugin/library.hpp"

#include <algorithm>
#include <cctype>

#include <dlfcn.h>

#include "src/base/log.hpp"
#include "src/base/result.hpp"

namespace tutti::plugin {
namespace {

constexpr std::string_view kDefaultName = "libnccl-net.so";
constexpr std::string_view kProgramItself = "STATIC_PLUGIN";
constexpr std::size_t kMostLibraries = 14;

std::vector<std::string> files_of(const std::string& name) {
  return {name, fmt::format("libnccl-net-{}.so", name)};
}

void* open_file(const std::string& name, const std::string& file, int flags) {
  return ::dlopen(name == kProgramItself ? nullptr : file.c_str(), flags);
}

bool equal_in_any_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

}  // namespace

std::vector<std::string> library_names(std::string_view setting) {
  if (setting.empty()) return {std::string(kDefaultName)};
  if (equal_in_any_case(setting, "none")) return {};
  std::vector<std::string> names;
  while (!setting.empty()) {
    const std::size_t comma = std::min(setting.find(','), setting.size());
    if (comma > 0) names.emplace_back(setting.substr(0, comma));
    setting.remove_prefix(std::min(comma + 1, setting.size()));
  }
  if (names.size() > kMostLibraries) {
    log_warn("", "{} network plugins are named; those after the first {} are ignored", names.size(),
             kMostLibraries);
    names.resize(kMostLibraries);
  }
  return names;
}

Result<SharedLibrary> Library::open(const std::string& name) {
  std::string why;
  for (const std::string& file : files_of(name)) {
    void* const handle = open_file(name, file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle != nullptr) return SharedLibrary(new Library(file, handle));
    const char* const reason = ::dlerror();
    if (!why.empty()) why += "; ";
    why += reason == nullptr ? "no reason given" : reason;
  }
  return make_error(Code::kUnsupported,
                    "the network plugin {} cannot be opened: {}; see NCCL_NET_PLUGIN and "
                    "LD_LIBRARY_PATH",
                    name, why);
}

bool Library::is_loaded(const std::string& name) {
  return std::ranges::any_of(files_of(name), [&](const std::string& file) {
    return open_file(name, file, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD) != nullptr;
  });
}

Result<Exported> Library::newest(const char* interface) const {
  for (int version = abi::kNewest; version >= abi::kOldest; --version)
    if (const void* table = ::dlsym(handle_, fmt::format("{}{}", interface, version).c_str()))
      return Exported{version, table};
  return make_error(Code::kUnsupported, "{} exports none of {}{} to {}{}", file_, interface,
                    abi::kOldest, interface, abi::kNewest);
}

}  // namespace tutti::plugin
