// Looks after a connection while its process computes: a path that fails has to be drained and told
// of at both ends, and the peer waits for that.
#pragma once

#include <atomic>
#include <memory>

#include "src/transport/transport.hpp"
#include "src/wire/service.hpp"
#include "tutti/error.hpp"

namespace tutti::verbs {

/// What a link and its attendant tell each other.
struct Attention {
  std::atomic<bool> news{false};       ///< the control socket has something to read
  std::atomic<bool> unsettled{false};  ///< a path is down, or on its way up or down
};

/// On the thread of `service`: calls progress() of `connection` when something comes by `control`,
/// the socket that its link owns, and now and then while a path is unsettled. Ends with the
/// connection, which it does not keep alive. Any thread may call it.
void attend(Service& service, const std::shared_ptr<Connection>& connection, int control,
            std::shared_ptr<Attention> attention);

}  // namespace tutti::verbs
