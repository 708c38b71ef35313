// For tests: mock plugins, each loaded as if for the first time.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "src/plugin/abi.hpp"

namespace tutti::plugin::testing {

inline std::vector<int> all_versions() {
  std::vector<int> versions;
  for (int version = abi::kOldest; version <= abi::kNewest; ++version) versions.push_back(version);
  return versions;
}

/// A copy of a mock under a new name, so the loader takes it for another library. `options`: see
/// mock/options.hpp. They hold for libraries that are loaded until the next one is made.
class FreshPlugin {
 public:
  explicit FreshPlugin(int version, const std::string& options = "") {
    static int copies = 0;
    const auto source = fmt::format("{}/libnccl-net-mock_v{}.so", folder_of_mocks(), version);
    file_ = fmt::format("{}/mock-net-{}-{}.so", std::filesystem::temp_directory_path().string(),
                        ::getpid(), ++copies);
    std::filesystem::copy_file(source, file_, std::filesystem::copy_options::overwrite_existing);
    ::setenv("MOCK_PLUGIN", options.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  }
  ~FreshPlugin() {
    std::error_code ignored;
    std::filesystem::remove(file_, ignored);
  }
  FreshPlugin(const FreshPlugin&) = delete;
  FreshPlugin& operator=(const FreshPlugin&) = delete;

  [[nodiscard]] const std::string& file() const { return file_; }

 private:
  static std::string folder_of_mocks() { return MOCK_PLUGINS; }
  std::string file_;
};

}  // namespace tutti::plugin::testing
