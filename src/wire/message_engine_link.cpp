#include "src/wire/message_engine_link.hpp"

#include <sys/epoll.h>

namespace tutti {

LinkWaker::LinkWaker(const std::deque<EngineLink>& links) {
  fd_ = links.front().bytes->poll_fd();
  if (links.size() == 1 || fd_ < 0) return;
  epoll_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  fd_ = epoll_.get();
  for (const EngineLink& link : links) {
    epoll_event event{};
    event.events = EPOLLIN;
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, link.bytes->poll_fd(), &event);
  }
  waits_for_room_.resize(links.size());
}

void LinkWaker::prepare(const std::deque<EngineLink>& links) {
  for (std::size_t i = 0; i < waits_for_room_.size(); ++i) {
    const bool waits = !links[i].out.empty();
    if (waits == waits_for_room_[i]) continue;
    epoll_event event{};
    event.events = waits ? EPOLLIN | EPOLLOUT : EPOLLIN;
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, links[i].bytes->poll_fd(), &event);
    waits_for_room_[i] = waits;
  }
}

}  // namespace tutti
