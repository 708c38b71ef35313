// Facts as text that travels between ranks, and the validation of what arrives.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "tools/doctor/facts.hpp"
#include "tutti/error.hpp"

namespace tutti::doctor {

/// Longest text that decode_* accept.
inline constexpr std::size_t kLongestFacts = std::size_t{256} << 10;

std::string encode(const HostFacts& host);
/// kWrongData names the field that is missing, of another kind, too long or out of range. Control
/// bytes in texts are shown as \xNN. What rank 0 fills in stays zero.
Result<HostFacts> decode_host(std::string_view text);

std::string encode(const PairReport& report);
Result<PairReport> decode_pair(std::string_view text);

/// Without addresses: for --json.
nlohmann::ordered_json to_json(const HostFacts& host);
nlohmann::ordered_json to_json(const LinkFacts& link);
std::string_view name_of(Reach::Outcome outcome);

}  // namespace tutti::doctor
