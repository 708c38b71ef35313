/* Makes one system call or allocation of a process fail: for LD_PRELOAD.
 *
 * After fault_arm(NAME, NUMBER, ERROR) the NUMBER-th call of that name, in any thread, fails once
 * with errno ERROR; with a negative NUMBER that call and all later ones do. fault_struck() tells
 * how many have failed. A thread is spared while it says fault_spare(1). What is not listed at the
 * end of this file cannot be made to fail. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

static char armed[32];
static int number, error_number;
static atomic_int seen, struck;
static atomic_bool is_armed;
static __thread int spared;

EXPORTED void fault_arm(const char* name, int at, int error) {
  atomic_store(&is_armed, 0);
  strncpy(armed, name, sizeof armed - 1);
  number = at;
  error_number = error;
  atomic_store(&seen, 0);
  atomic_store(&struck, 0);
  atomic_store(&is_armed, 1);
}

EXPORTED int fault_struck(void) {
  atomic_store(&is_armed, 0);
  return atomic_load(&struck);
}

EXPORTED void fault_spare(int whether) { spared = whether; }

static int strikes(const char* name) {
  if (!atomic_load_explicit(&is_armed, memory_order_relaxed)) return 0;
  if (spared || strcmp(name, armed) != 0) return 0;
  const int now = atomic_fetch_add(&seen, 1) + 1;
  if (number > 0 ? now != number : now < -number) return 0;
  atomic_fetch_add(&struck, 1);
  errno = error_number;
  return 1;
}

/* A function of the C library that says -1 where it failed. */
#define FAILING(TYPE, NAME, PARAMETERS, ARGUMENTS)                 \
  EXPORTED TYPE NAME PARAMETERS {                                  \
    static TYPE(*real) PARAMETERS;                                 \
    if (!real) real = (TYPE(*) PARAMETERS)dlsym(RTLD_NEXT, #NAME); \
    if (strikes(#NAME)) return (TYPE) - 1;                         \
    return real ARGUMENTS;                                         \
  }

FAILING(int, socket, (int domain, int type, int protocol), (domain, type, protocol))
FAILING(int, bind, (int fd, const struct sockaddr* to, socklen_t size), (fd, to, size))
FAILING(int, listen, (int fd, int backlog), (fd, backlog))
FAILING(int, accept4, (int fd, struct sockaddr* from, socklen_t* size, int flags),
        (fd, from, size, flags))
FAILING(int, connect, (int fd, const struct sockaddr* to, socklen_t size), (fd, to, size))
FAILING(int, getsockname, (int fd, struct sockaddr* name, socklen_t* size), (fd, name, size))
FAILING(int, getsockopt, (int fd, int level, int name, void* value, socklen_t* size),
        (fd, level, name, value, size))
FAILING(int, setsockopt, (int fd, int level, int name, const void* value, socklen_t size),
        (fd, level, name, value, size))
FAILING(ssize_t, send, (int fd, const void* data, size_t size, int flags), (fd, data, size, flags))
FAILING(ssize_t, recv, (int fd, void* data, size_t size, int flags), (fd, data, size, flags))
FAILING(ssize_t, sendmsg, (int fd, const struct msghdr* message, int flags), (fd, message, flags))
FAILING(ssize_t, recvmsg, (int fd, struct msghdr* message, int flags), (fd, message, flags))
FAILING(ssize_t, readv, (int fd, const struct iovec* pieces, int count), (fd, pieces, count))
FAILING(ssize_t, writev, (int fd, const struct iovec* pieces, int count), (fd, pieces, count))
FAILING(int, poll, (struct pollfd * entries, nfds_t count, int timeout), (entries, count, timeout))
FAILING(int, epoll_create1, (int flags), (flags))
FAILING(int, epoll_ctl, (int epoll, int what, int fd, struct epoll_event* event),
        (epoll, what, fd, event))
FAILING(int, epoll_wait, (int epoll, struct epoll_event* events, int most, int timeout),
        (epoll, events, most, timeout))
FAILING(int, eventfd, (unsigned initial, int flags), (initial, flags))
FAILING(int, memfd_create, (const char* name, unsigned flags), (name, flags))
FAILING(int, ftruncate, (int fd, off_t size), (fd, size))
FAILING(int, fallocate, (int fd, int mode, off_t offset, off_t size), (fd, mode, offset, size))
FAILING(void*, mmap, (void* at, size_t size, int access, int flags, int fd, off_t offset),
        (at, size, access, flags, fd, offset))
FAILING(ssize_t, getrandom, (void* data, size_t size, unsigned flags), (data, size, flags))
FAILING(ssize_t, process_vm_readv,
        (pid_t process, const struct iovec* to, unsigned long tos, const struct iovec* from,
         unsigned long froms, unsigned long flags),
        (process, to, tos, from, froms, flags))

EXPORTED int open(const char* path, int flags, ...) {
  static int (*real)(const char*, int, ...);
  if (!real) real = (int (*)(const char*, int, ...))dlsym(RTLD_NEXT, "open");
  va_list rest;
  va_start(rest, flags);
  const unsigned mode = va_arg(rest, unsigned);
  va_end(rest);
  if (strikes("open")) return -1;
  return real(path, flags, mode);
}

EXPORTED int pthread_create(unsigned long* thread, const void* attributes, void* (*body)(void*),
                            void* argument) {
  typedef int Create(unsigned long*, const void*, void* (*)(void*), void*);
  static Create* real;
  if (!real) real = (Create*)dlsym(RTLD_NEXT, "pthread_create");
  if (strikes("pthread_create")) return error_number;
  return real(thread, attributes, body, argument);
}

/* dlsym() allocates: the allocator goes by its name within the C library. */
extern void* __libc_malloc(size_t);
EXPORTED void* malloc(size_t size) { return strikes("malloc") ? NULL : __libc_malloc(size); }
