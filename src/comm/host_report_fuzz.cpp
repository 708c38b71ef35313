// Any bytes decode to an error or to a host that can be fused with others and told again.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "src/comm/host_report.hpp"
#include "src/topo/job/fuse.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kMost = tutti::most_report_bytes(2);
  const auto host = tutti::decode_host_report(std::as_bytes(std::span(data, size)), kMost, 0);
  if (!host) return 0;
  const std::vector hosts = {*host, *host};
  const std::vector<tutti::topo::JobRank> ranks = {{1, {}},
                                                   {0, *tutti::topo::CpuMask::from_list("3")}};
  const auto job = tutti::topo::fuse(hosts, ranks);
  if (!job || !tutti::topo::check(job->placement, job->topology)) std::abort();
  for (const std::size_t most : {kMost, std::size_t{1024}}) {
    const tutti::Blob told = tutti::encode_host_report(*host, most);
    if (told.size() > most || !tutti::decode_host_report(told, most, 0)) std::abort();
  }
  return 0;
}
