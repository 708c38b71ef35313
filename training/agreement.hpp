// What ranks tell each other besides training data: collective, small and rare calls.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "training/parameters.hpp"
#include "tutti/communicator.hpp"
#include "tutti/error.hpp"

namespace tutti::training {

/// kPeerFailed that names a rank.
Error peer_failure(std::size_t rank, std::string what);

/// Returns every rank's text to every rank.
Result<std::vector<std::string>> gather_texts(Comm& comm, std::string_view mine);

/// Whether all ranks are well. If not, each failed rank gets its own error. The others get
/// kPeerFailed with the first failed rank and its error.
Status agree(Comm& comm, const Status& mine);

/// kPeerFailed on all ranks if a rank's number differs from rank 0's. `what` says how: "resumes
/// from another step".
Status agree_on_number(Comm& comm, std::uint64_t number, std::string_view what);

/// kPeerFailed on all ranks if a rank's model differs from rank 0's; names that rank and the first
/// parameter that differs. The same if `options` differs, a hash of everything else that must be
/// equal.
Status agree_on_model(Comm& comm, const ParameterTable& table, std::uint64_t options);

}  // namespace tutti::training
