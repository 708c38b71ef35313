// One rank of a job under whatever launcher started it: detects, joins, gathers every rank's number
// twice; joins again beside the first group and after it, and says so. tests/launchers/run starts
// it under each launcher that is installed.
#include <cstdio>

#include <fmt/format.h>

#include "src/base/bytes.hpp"
#include "src/base/result.hpp"
#include "src/bootstrap/launcher.hpp"

namespace {

using namespace tutti;

Status talk(const std::unique_ptr<Bootstrap>& me, Deadline deadline) {
  for (int round = 0; round < 2; ++round) {
    Blob mine;
    ByteWriter(mine).put(me->rank());
    TUTTI_ASSIGN(const auto all, me->all_gather(std::move(mine), deadline));
    for (Rank r = 0; r < me->size(); ++r) {
      const auto told = ByteReader(all[static_cast<std::size_t>(r)]).get<Rank>();
      TUTTI_CHECK(told == r, "rank {} says {}", r, told);
    }
  }
  return ok_status();
}

Status meet(const std::shared_ptr<Service>& service, const char* url) {
  const auto deadline = Deadline::after(std::chrono::seconds(20));
  TUTTI_ASSIGN(const Job job, detect_job(process_environment(), url));
  TUTTI_ASSIGN(auto first, join_job(service, job, {}, deadline));
  TUTTI_TRY(talk(first, deadline));
  TUTTI_ASSIGN(auto second, join_job(service, job, {}, deadline));
  TUTTI_TRY(talk(second, deadline));
  TUTTI_TRY(talk(first, deadline));
  const auto rank = first->rank(), size = first->size();
  first.reset();
  second.reset();
  for (int again = 0; again < 10; ++again) {
    TUTTI_ASSIGN(const auto later, join_job(service, job, {}, deadline));
    TUTTI_TRY(talk(later, deadline));
  }
  fmt::print("met: rank {} of {} through {}\n", rank, size, name_of(job.meeting));
  return ok_status();
}

}  // namespace

int main(int argc, char** argv) {
  const auto service = Service::create();
  if (!service) return 5;
  const Status met = meet(*service, argc > 1 ? argv[1] : "");
  if (met) return 0;
  fmt::print(stderr, "{}\n", met.error().what);
  return 1;
}
