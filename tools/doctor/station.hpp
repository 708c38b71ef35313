// What a rank offers for checks: its facts, the transports that a job would use, and its part in
// the check of a pair.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "src/base/settings.hpp"
#include "src/transport/transport.hpp"
#include "src/wire/crypto.hpp"
#include "tools/doctor/facts.hpp"
#include "tutti/error.hpp"

namespace tutti::doctor {

/// Resource. One thread at a time.
class Station {
 public:
  /// Opens TCP, and RDMA where there are devices. `token`: of this process; `key`: of the job;
  /// `version`: of libtutti. Errors are those of TCP: facts tell why there is no RDMA.
  static Result<std::unique_ptr<Station>> open(const Settings& settings, std::uint64_t token,
                                               const Key& key, const std::string& version);

  [[nodiscard]] HostFacts& facts() { return facts_; }

  /// One half of the check of a pair; the other host does the same at about the same time. `leads`:
  /// this host is the first of the pair, and measures. Takes a minute at most.
  PairReport check(const HostFacts& peer, bool leads);

 private:
  Station(const Key& key, HostFacts facts, std::shared_ptr<Transport> tcp,
          std::shared_ptr<Transport> rdma);
  LinkFacts measure(Transport& transport, const HostFacts& peer, const Blob& address, bool leads);

  const Key key_;
  HostFacts facts_;
  const std::shared_ptr<Transport> tcp_;
  const std::shared_ptr<Transport> rdma_;  ///< null: there is none
};

/// Tries to connect to `address`.
Reach reach(const std::string& address);

}  // namespace tutti::doctor
