// What this host tells of itself.
#pragma once

#include <string>

#include "src/base/settings.hpp"
#include "tools/doctor/facts.hpp"
#include "tutti/error.hpp"

namespace tutti::doctor {

/// All of HostFacts but the rank, the RDMA facts, and how others reach it. `address`: where its TCP
/// transport listens.
Result<HostFacts> facts_of_this_host(const Settings& settings, const std::string& version,
                                     const std::string& address);

/// Devices, ports and limits as libibverbs tells them; without opening a transport.
RdmaFacts rdma_of_this_host(const Settings& settings);

}  // namespace tutti::doctor
