#include "transports/verbs/attendant.hpp"

#include <algorithm>
#include <utility>

#include <fcntl.h>
#include <sys/epoll.h>

#include "src/base/clock.hpp"
#include "src/base/fd.hpp"

namespace tutti::verbs {
namespace {

constexpr Nanos kShortPause = std::chrono::milliseconds(2);
constexpr Nanos kLongPause = std::chrono::milliseconds(100);

/// Lives as long as a watch or a timer of it.
class Attendant : public std::enable_shared_from_this<Attendant> {
 public:
  Attendant(Service& service, std::weak_ptr<Connection> connection, Fd control,
            std::shared_ptr<Attention> attention)
      : service_(service),
        connection_(std::move(connection)),
        control_(std::move(control)),
        attention_(std::move(attention)) {}

  void wait() {
    auto watch = service_.watch(control_.get(), EPOLLIN, [self = shared_from_this()](auto) {
      self->service_.unwatch(self->watch_);
      self->pause_ = kShortPause;
      self->look();
    });
    if (watch) watch_ = *watch;
  }

 private:
  /// One look, and a pause: what is told again and again must not keep this thread from others.
  void look() {
    const auto connection = connection_.lock();
    if (!connection || !connection->health()) return;
    attention_->news.store(true, std::memory_order_relaxed);
    connection->progress();
    service_.at(Clock::now() + pause_, [self = shared_from_this()] {
      self->pause_ = std::min(2 * self->pause_, kLongPause);
      if (self->attention_->unsettled.load(std::memory_order_relaxed))
        self->look();
      else
        self->wait();
    });
  }

  Service& service_;
  const std::weak_ptr<Connection> connection_;
  const Fd control_;  // a descriptor of its own
  const std::shared_ptr<Attention> attention_;
  Service::WatchId watch_ = 0;
  Nanos pause_ = kShortPause;
};

}  // namespace

void attend(Service& service, const std::shared_ptr<Connection>& connection, int control,
            std::shared_ptr<Attention> attention) {
  Fd own(::fcntl(control, F_DUPFD_CLOEXEC, 0));
  if (!own) return;  // out of descriptors: the connection is looked after by its users alone
  auto attendant =
      std::make_shared<Attendant>(service, connection, std::move(own), std::move(attention));
  service.post([attendant = std::move(attendant)] { attendant->wait(); });
}

}  // namespace tutti::verbs
