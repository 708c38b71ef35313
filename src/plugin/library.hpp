// The shared libraries that hold NCCL's plugins, found as NCCL finds them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/clock.hpp"
#include "src/plugin/abi.hpp"
#include "tutti/error.hpp"

namespace tutti::plugin {

inline constexpr const char* kNet = "ncclNetPlugin_v";
inline constexpr const char* kCollNet = "ncclCollNetPlugin_v";

/// The libraries that NCCL_NET_PLUGIN names, in order: "a,b" is two, "none" is none, and "" is
/// libnccl-net.so. At most 14; NCCL ignores the others, too.
std::vector<std::string> library_names(std::string_view setting);

/// What a library exports for one of the interfaces.
struct Exported {
  int version = 0;
  const void* table = nullptr;
};

/// Resource, shared. Thread-safe.
class Library {
 public:
  /// Tries the name as it is, then libnccl-net-NAME.so. "STATIC_PLUGIN" is the program itself. It
  /// stays loaded for good, since a plugin may leave threads and callbacks behind. kUnsupported has
  /// the reasons.
  static Result<std::shared_ptr<const Library>> open(const std::string& name);
  /// Whether it is in this process already.
  static bool is_loaded(const std::string& name);

  /// `interface`: kNet or kCollNet. kUnsupported names the versions that Tutti knows.
  [[nodiscard]] Result<Exported> newest(const char* interface) const;
  /// The name by which it was found.
  [[nodiscard]] const std::string& file() const { return file_; }

 private:
  Library(std::string file, void* handle) : file_(std::move(file)), handle_(handle) {}
  const std::string file_;
  void* const handle_;
};
using SharedLibrary = std::shared_ptr<const Library>;

}  // namespace tutti::plugin
