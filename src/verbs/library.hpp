// libibverbs, opened at run time, so that one binary also runs where there is none. In tests a
// library in memory (fake/) takes its place.
//
// Errors name the operation, the device and the reason in errno's words. Codes: kUnsupported if the
// library or the device cannot do it, kUnavailable for a lack of memory or of objects, with the
// limit that was met.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/verbs/entry_points.hpp"
#include "tutti/error.hpp"

namespace tutti::verbs {

inline constexpr const char* kLibrary = "libibverbs.so.1";

class Device;

/// Resource, shared. Thread-safe.
class Library : public std::enable_shared_from_this<Library> {
 public:
  /// kUnsupported if `name` cannot be opened or lacks a function. It stays loaded for good.
  static Result<std::shared_ptr<const Library>> open(const char* name = kLibrary);

  /// The devices of this machine by name, in the library's order. Empty if the kernel has no RDMA.
  [[nodiscard]] Result<std::vector<std::string>> device_names() const;
  /// kUnavailable if the device is gone, or /dev/infiniband is out of reach.
  [[nodiscard]] Result<std::shared_ptr<Device>> open_device(std::string_view name) const;

  /// Makes registered memory survive fork(): its pages stay where the device knows them. Kernels
  /// since 5.12 copy registered pages for the child, and this does nothing. On older ones it comes
  /// before the first registration, and a child has no registered pages: touching one ends it.
  [[nodiscard]] Status prepare_for_fork() const;

  [[nodiscard]] const EntryPoints& call() const { return call_; }

 private:
  explicit Library(const EntryPoints& call) : call_(call) {}
  const EntryPoints call_;
};
using SharedLibrary = std::shared_ptr<const Library>;

/// "transport retry counter exceeded": a completion's status in words.
std::string describe(const Library& library, ibv_wc_status status);

}  // namespace tutti::verbs
