// What users ask for in words: TUTTI_ALGO, and NCCL's NCCL_ALGO and NCCL_PROTO.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/error.hpp"

namespace tutti {

/// Names are equal in which this is: in small letters, without '-', '_' and spaces, NCCL's "Tree"
/// as the algorithm it is here.
std::string normalised(std::string_view name);

/// Those parts between separators that are not empty. They point into `text`.
std::vector<std::string_view> parts_between(std::string_view text, char separator);

/// One part of TUTTI_ALGO: "names", "collective:names", "file:PATH" or "collective:file:PATH".
struct AskedGroup {
  std::string collective;  ///< normalised; "" for all
  std::string_view names;  ///< a list, or "" where there is a path
  std::string_view path;
};

/// The parts between ';'; they point into `forced`. kInvalidArgument when it cannot be understood.
Result<std::vector<AskedGroup>> groups_of(std::string_view forced);

inline constexpr std::size_t kMostFiles = 64;  ///< that one TUTTI_ALGO names
/// The paths that it names, in order. kInvalidArgument when it cannot be understood.
Result<std::vector<std::string>> files_of(std::string_view forced);

/// Whether `asked` is a list of NCCL's protocols, with NCCL's grammar: "LL,Simple",
/// "allreduce:^LL128". kInvalidArgument names what is not. There is nothing to choose from: how
/// data moves here follows from its size and from where the ranks are.
Status check_protocols(std::string_view asked);

}  // namespace tutti
