// What was found, as text and as JSON.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "tools/doctor/facts.hpp"
#include "tools/doctor/findings.hpp"

namespace tutti::doctor {

/// Tables of hosts, RDMA ports and pairs, then the findings, in lines of about `width` characters;
/// 0: each sentence on one line.
std::string text_of(const JobFacts& job, std::span<const Finding> findings, std::size_t width = 0);
nlohmann::ordered_json json_of(const JobFacts& job, std::span<const Finding> findings);

/// 6 if a host did not answer, 5 if there are errors (`strict`: or warnings), else 0.
int exit_code_of(const JobFacts& job, std::span<const Finding> findings, bool strict);

}  // namespace tutti::doctor
