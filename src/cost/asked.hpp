// What users ask for in words: TUTTI_ALGO, and NCCL's NCCL_ALGO and NCCL_PROTO.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/settings.hpp"
#include "src/ir/algorithm.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti {

/// Two names mean the same if their normalised forms are equal: lower case, without '-', '_' and
/// spaces. NCCL's "Tree" becomes our name for that algorithm.
std::string normalised(std::string_view name);

/// The collective whose name means the same as `name`; none: there is none.
std::optional<Collective> collective_meant(std::string_view name);

/// The non-empty parts between separators. They point into `text`.
std::vector<std::string_view> parts_between(std::string_view text, char separator);

/// One part of TUTTI_ALGO: "names", "collective:names", "file:PATH" or "collective:file:PATH".
struct AskedGroup {
  std::string collective;  ///< normalised; "" for all
  std::string_view names;  ///< a list of names, or "" if there is a path
  std::string_view path;
};

/// The parts between ';'. They point into `forced`. kInvalidArgument when it cannot be parsed.
Result<std::vector<AskedGroup>> groups_of(std::string_view forced);

inline constexpr std::size_t kMostFiles = 64;  ///< most files in one TUTTI_ALGO
/// The paths in `forced`, in order. kInvalidArgument when it cannot be parsed.
Result<std::vector<std::string>> files_of(std::string_view forced);

/// The value of TUTTI_ALGO or NCCL_ALGO. NCCL has algorithms that exist nowhere here, such as NVLS:
/// what NCCL_ALGO says of those is left out, with a warning. A name in TUTTI_ALGO is meant for us
/// and stays, to be an error where it is used.
std::string asked_algorithms(const Settings& settings, std::span<const ir::Algorithm> algorithms);

/// Checks that `asked` is a list of NCCL's protocols in NCCL's grammar: "LL,Simple",
/// "allreduce:^LL128". kInvalidArgument names the wrong part. The list has no other effect: size
/// and placement of ranks decide how data moves here.
Status check_protocols(std::string_view asked);

}  // namespace tutti
