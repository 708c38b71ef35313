// The verbs library in memory as tests use it: the seam, and controls that only tests need.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

#include <dlfcn.h>

#include "src/verbs/device.hpp"
#include "src/verbs/fake/controls.hpp"

namespace tutti::verbs {

/// `library` is the file of the library in memory. Ends the process if it cannot be opened, because
/// no test can run then. One test at a time: there is one set of devices.
class FakeClient {
 public:
  explicit FakeClient(const char* library)
      : handle_(::dlopen(library, RTLD_NOW | RTLD_LOCAL)), library_(opened(library)) {}

  [[nodiscard]] const SharedLibrary& shared() const { return library_; }
  const Library& operator*() const { return *library_; }
  const Library* operator->() const { return library_.get(); }

  /// See FakeVerbsReset.
  void reset(const std::string& devices, std::uint64_t seed = 0) const {
    symbol<FakeVerbsReset>("fake_verbs_reset")(devices.c_str(), seed);
  }
  void chances(const FakeVerbsChances& chances) const {
    symbol<FakeVerbsSetChances>("fake_verbs_set_chances")(&chances);
  }
  void set_port(const char* device, int port, bool active) const {
    symbol<FakeVerbsSetPort>("fake_verbs_set_port")(device, port, active ? 1 : 0);
  }
  void set_cut(const char* device, int port, bool cut) const {
    symbol<FakeVerbsSetCut>("fake_verbs_set_cut")(device, port, cut ? 1 : 0);
  }
  void set_gid(const char* device, int port, int index, const char* gid,
               const char* type = "v2") const {
    symbol<FakeVerbsSetGid>("fake_verbs_set_gid")(device, port, index, gid, type);
  }
  void remove(const char* device) const { symbol<FakeVerbsRemove>("fake_verbs_remove")(device); }
  [[nodiscard]] int step(int steps = 1) const {
    return symbol<FakeVerbsStep>("fake_verbs_step")(steps);
  }
  [[nodiscard]] long live(const char* kind = "*") const {
    return symbol<FakeVerbsLive>("fake_verbs_live")(kind);
  }
  [[nodiscard]] long count(const char* what) const {
    return symbol<FakeVerbsCount>("fake_verbs_count")(what);
  }

 private:
  static SharedLibrary opened(const char* name) {
    auto library = Library::open(name);
    if (library) return *std::move(library);
    std::fprintf(stderr, "%s\n", library.error().what.c_str());
    std::abort();
  }
  template <class Entry>
  Entry symbol(const char* name) const {
    return reinterpret_cast<Entry>(::dlsym(handle_, name));
  }
  void* handle_;
  SharedLibrary library_;
};

}  // namespace tutti::verbs
