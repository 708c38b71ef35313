#include <cstdlib>

#include <gtest/gtest.h>

#include "src/base/sanitized.hpp"
#include "tests/conformance/connected_pair.hpp"
#include "tests/conformance/meet.hpp"
#include "transports/ucx/ucx_transport.hpp"

namespace tutti::testing {
namespace {

/// "rc_verbs,self": the transports of UCX that take the place of tcp.
const char* asked_transports(const char* others) {
  const char* const asked = std::getenv("TUTTI_TEST_UCX");  // NOLINT(concurrency-mt-unsafe)
  return asked == nullptr ? others : asked;
}

/// UCX reads its settings as a context is made.
std::shared_ptr<Transport> ucx_transport_over(const char* transports, std::uint64_t token) {
  ::setenv("UCX_TLS", transports, 1);  // NOLINT(concurrency-mt-unsafe)
  const auto library = ucx::Library::open();
  EXPECT_TRUE(library) << library.error().what;
  const auto context = ucx::Context::create(*library);
  EXPECT_TRUE(context) << context.error().what;
  auto transport =
      make_ucx_transport(*context, {.token = token, .interfaces = {.ifname = "lo", .family = ""}});
  EXPECT_TRUE(transport) << transport.error().what;
  return *transport;
}

}  // namespace

// Asked before a test forks, this must leave nothing of UCX's behind but the library.
const std::string& missing_ucx() {
  static const std::string kWhy = [] {
    // UCX's hooks of mmap and the sanitizers' are not made for each other.
    if (kSanitized) ::setenv("UCX_MEM_EVENTS", "n", 0);  // NOLINT(concurrency-mt-unsafe)
    const auto library = ucx::Library::open();
    return library ? std::string() : library.error().what;
  }();
  return kWhy;
}

std::shared_ptr<Transport> ucx_transport(std::uint64_t token) {
  return ucx_transport_over(asked_transports("tcp,self"), token);
}

std::shared_ptr<Transport> ucx_shm_transport(std::uint64_t token) {
  return ucx_transport_over("posix,self", token);
}

const Medium& ucx_medium() {
  static const Medium kMedium{.name = "Ucx",
                              .connect = [] { return meet(ucx_transport(1), ucx_transport(2)); },
                              .missing = missing_ucx};
  return kMedium;
}

const Medium& ucx_shm_medium() {
  static const Medium kMedium{
      .name = "UcxShm",
      .connect = [] { return meet(ucx_shm_transport(1), ucx_shm_transport(2)); },
      .missing = missing_ucx};
  return kMedium;
}

}  // namespace tutti::testing
