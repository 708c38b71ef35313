// What ranks tell each other outside of their training: collective, small and rare.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "training/parameters.hpp"
#include "tutti/communicator.hpp"
#include "tutti/error.hpp"

namespace tutti::training {

/// kPeerFailed, which names a rank.
Error peer_failure(std::size_t rank, std::string what);

/// Every rank's text, on every rank.
Result<std::vector<std::string>> gather_texts(Comm& comm, std::string_view mine);

/// Whether all ranks are well. Else each that is not gets its own error, and the others kPeerFailed
/// with the rank and the error of the first of these.
Status agree(Comm& comm, const Status& mine);

/// kPeerFailed on all ranks where one has another number than rank 0; `what`: "resumes from another
/// step".
Status agree_on_number(Comm& comm, std::uint64_t number, std::string_view what);

/// kPeerFailed on all ranks where one has another model than rank 0, with that rank and the first
/// parameter that differs; or another `options`, a hash of what else has to be the same.
Status agree_on_model(Comm& comm, const ParameterTable& table, std::uint64_t options);

}  // namespace tutti::training
