#include <memory>
#include <utility>

#include "src/transport/checked_connection.hpp"
#include "tests/conformance/connected_pair.hpp"

namespace tutti::testing {
namespace {

Medium checked(const Medium& below) {
  Medium medium = below;
  medium.name = "Checked" + below.name;
  medium.connect = [&below] {
    ConnectedPair pair = below.connect();
    pair.a = std::make_shared<CheckedConnection>(std::move(pair.a));
    pair.b = std::make_shared<CheckedConnection>(std::move(pair.b));
    return pair;
  };
  return medium;
}

}  // namespace

const Medium& checked_loopback_medium() {
  static const Medium kMedium = checked(loopback_medium());
  return kMedium;
}

const Medium& checked_tcp_medium() {
  static const Medium kMedium = checked(tcp_medium());
  return kMedium;
}

const Medium& checked_shm_medium() {
  static const Medium kMedium = checked(shm_medium());
  return kMedium;
}

#if TUTTI_HAVE_IBVERBS
const Medium& checked_verbs_medium() {
  static const Medium kMedium = checked(registered_verbs_medium());
  return kMedium;
}
#endif

}  // namespace tutti::testing
