// The lowered programs of a process, shared by its ranks and its communicators.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "src/ir/compress.hpp"
#include "src/lower/program.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti {

/// One per process. Thread-safe.
class ProgramLibrary {
 public:
  using Program = std::shared_ptr<const lower::Lowered>;
  /// All that a program follows from.
  struct Key {
    std::string_view algorithm;  ///< its name, of one that lives as long as the library
    Collective collective = Collective::kAllReduce;
    Rank root = 0;
    bool in_place = false, scales_input = false;
    bool uneven_blocks = false;  ///< checked for blocks of any sizes
    lower::ProgramProtocol protocol = lower::ProgramProtocol::kStaged;
    bool stores_to_peers = true;  ///< lower::LowerOptions::stores_to_peers
    /// Which messages ir::compress() compresses; none: the schedule is as it is generated.
    std::optional<ir::CompressedMessages> compressed = {};
    bool in_network = false;         ///< groups stay; else they are expanded
    std::vector<std::int32_t> host;  ///< lower::Placement::host
    friend auto operator<=>(const Key&, const Key&) = default;
  };

  /// The program of `key` if anybody keeps it, else what `make` returns, which may be null. Others
  /// wait meanwhile, because ranks that are threads of one process ask for the same one at once.
  Result<Program> get(const Key& key, const std::function<Result<Program>()>& make);

 private:
  std::mutex mutex_;
  std::map<Key, std::weak_ptr<const lower::Lowered>> programs_;
};

}  // namespace tutti
