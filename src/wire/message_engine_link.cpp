#include "src/wire/message_engine_link.hpp"

#include <sys/epoll.h>

namespace tutti {

LinkWaker::LinkWaker(std::span<const EngineLink> links) {
  fd_ = links.front().bytes->poll_fd();
  if (links.size() == 1 || fd_ < 0) return;
  epoll_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  fd_ = epoll_.get();
  for (const EngineLink& link : links) watch(EPOLL_CTL_ADD, link.bytes->poll_fd(), EPOLLIN);
  events_.assign(links.size(), EPOLLIN);
}

// A link that the peer has left would be readable for ever.
void LinkWaker::prepare(std::span<const EngineLink> links) {
  for (std::size_t i = 0; i < events_.size(); ++i) {
    std::uint32_t events = EPOLLIN;
    if (!links[i].out.empty()) events |= EPOLLOUT;
    if (links[i].departed) events = 0;
    if (events == events_[i]) continue;
    watch(events == 0 ? EPOLL_CTL_DEL : EPOLL_CTL_MOD, links[i].bytes->poll_fd(), events);
    events_[i] = events;
  }
}

// Better no descriptor than one that misses what happens.
void LinkWaker::watch(int operation, int fd, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  if (::epoll_ctl(epoll_.get(), operation, fd, &event) != 0) fd_ = -1;
}

}  // namespace tutti
