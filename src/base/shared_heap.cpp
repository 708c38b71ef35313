#include "src/base/shared_heap.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/result.hpp"

namespace tutti {
namespace {

constexpr std::size_t kSmallestHeap = 1 << 20;
constexpr int kRequiredSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
// fallocate starts over when a signal interrupts it; in steps of this size it gets ahead even under
// a profiler's timer. What interrupts so often without a break is no timer.
constexpr std::uint64_t kBackingStep = 64 << 20;
constexpr int kInterruptions = 1000;

std::size_t page_bytes() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

std::size_t physical_memory_bytes() {
  return static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) * page_bytes();
}

// Zero on overflow, and never zero otherwise: an empty allocation has an address of its own.
std::size_t round_to_pages(std::size_t bytes) {
  const std::size_t page = page_bytes();
  return (std::max<std::size_t>(bytes, 1) + page - 1) / page * page;
}

// ftruncate beyond RLIMIT_FSIZE raises SIGXFSZ, which kills: stay below it.
std::size_t largest_file_bytes() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return SIZE_MAX;
  return static_cast<std::size_t>(limit.rlim_cur) / page_bytes() * page_bytes();
}

Result<Fd> create_memfd() {
#ifdef MFD_NOEXEC_SEAL
  constexpr unsigned kNoExec = MFD_NOEXEC_SEAL;
#else
  constexpr unsigned kNoExec = 0x8;  // since Linux 6.3; required where vm.memfd_noexec=2
#endif
  Fd fd(::memfd_create("tutti-heap", MFD_CLOEXEC | MFD_ALLOW_SEALING | kNoExec));
  if (!fd && errno == EINVAL)
    fd = Fd(::memfd_create("tutti-heap", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd)
    return system_error(Code::kUnavailable, errno,
                        "memfd_create for the shared heap; free descriptors or allow memfd");
  return fd;
}

void* map_shared(int fd, std::size_t bytes) {
  return ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
}

// Sizes the file and maps it, halving until both succeed.
Result<std::span<std::byte>> size_and_map(int fd, std::size_t bytes) {
  int failure = 0;
  for (std::size_t size = bytes; size >= std::min(bytes, kSmallestHeap); size = size / 2) {
    size = size / page_bytes() * page_bytes();
    if (size == 0) break;
    if (::ftruncate(fd, static_cast<off_t>(size)) == 0) {
      void* address = map_shared(fd, size);
      if (address != MAP_FAILED) return std::span(static_cast<std::byte*>(address), size);
    }
    failure = errno;
  }
  return system_error(
      Code::kUnavailable, failure,
      fmt::format("mapping a shared heap of {} bytes or less; raise `ulimit -v`", bytes));
}

// 0, or the errno of the failure.
int back_with_pages(int fd, std::uint64_t offset, std::uint64_t bytes) {
  int interrupted = 0;
  for (std::uint64_t done = 0; done < bytes;) {
    const std::uint64_t step = std::min(kBackingStep, bytes - done);
    if (::fallocate(fd, 0, static_cast<off_t>(offset + done), static_cast<off_t>(step)) == 0) {
      done += step;
      interrupted = 0;
    } else if (errno != EINTR || ++interrupted == kInterruptions) {
      return errno;
    }
  }
  return 0;
}

int give_pages_back(int fd, std::uint64_t offset, std::uint64_t bytes) {
  constexpr int kMode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  for (int interrupted = 0; interrupted < kInterruptions; ++interrupted) {
    if (::fallocate(fd, kMode, static_cast<off_t>(offset), static_cast<off_t>(bytes)) == 0)
      return 0;
    if (errno != EINTR) return errno;
  }
  return EINTR;
}

using Ranges = std::map<std::uint64_t, std::uint64_t>;

// First fit: low addresses stay dense, so the page tables of peers stay small.
std::optional<std::uint64_t> take_first_fit(Ranges& holes, std::uint64_t bytes) {
  for (auto hole = holes.begin(); hole != holes.end(); ++hole) {
    const auto [offset, size] = *hole;
    if (size < bytes) continue;
    holes.erase(hole);
    if (size > bytes) holes.emplace(offset + bytes, size - bytes);
    return offset;
  }
  return std::nullopt;
}

bool overlaps(const Ranges& ranges, std::uint64_t offset, std::uint64_t bytes) {
  return std::ranges::any_of(ranges, [&](const auto& range) {
    return range.first < offset + bytes && offset < range.first + range.second;
  });
}

// Private pages of the same contents. 0, or the errno of the failure.
int make_private(std::byte* place, std::uint64_t bytes) {
  void* const copy =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy == MAP_FAILED) return errno;
  std::memcpy(copy, place, bytes);
  if (::mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, place) != MAP_FAILED) return 0;
  const int failure = errno;
  ::munmap(copy, bytes);
  return failure;
}

void give_hole_back(Ranges& holes, std::uint64_t offset, std::uint64_t bytes) {
  auto next = holes.lower_bound(offset);
  if (next != holes.end() && offset + bytes == next->first) {
    bytes += next->second;
    next = holes.erase(next);
  }
  if (next != holes.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += bytes;
      return;
    }
  }
  holes.emplace(offset, bytes);
}

}  // namespace

std::size_t default_heap_bytes(std::size_t memory_bytes, int cpus) {
  constexpr std::size_t kForHeaps = std::size_t{1} << 46;
  return std::min(memory_bytes, kForHeaps / static_cast<std::size_t>(std::max(cpus, 1)));
}

Result<std::unique_ptr<SharedHeap>> SharedHeap::create(std::size_t virtual_bytes) {
  const std::size_t wanted =
      virtual_bytes == 0 ? default_heap_bytes(physical_memory_bytes(),
                                              static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)))
                         : virtual_bytes;
  TUTTI_ASSIGN(Fd fd, create_memfd());
  TUTTI_ASSIGN(const auto mapping, size_and_map(fd.get(), std::min(wanted, largest_file_bytes())));
  std::unique_ptr<SharedHeap> heap(new SharedHeap(std::move(fd), mapping));
  if (::fcntl(heap->fd(), F_ADD_SEALS, kRequiredSeals) != 0)
    return system_error(Code::kUnsupported, errno, "sealing the shared heap's memfd");
  return heap;
}

SharedHeap::SharedHeap(Fd fd, std::span<std::byte> mapping)
    : fd_(std::move(fd)), mapping_(mapping), holes_{{0, mapping.size()}} {}

SharedHeap::~SharedHeap() { ::munmap(mapping_.data(), mapping_.size()); }

// The system calls run outside the lock: nobody's page waits for another thread's gigabyte.
Result<std::span<std::byte>> SharedHeap::allocate(std::size_t bytes) {
  const std::size_t rounded = round_to_pages(bytes);
  std::optional<std::uint64_t> offset;
  if (rounded != 0) {
    std::scoped_lock lock(mutex_);
    offset = take_first_fit(holes_, rounded);
  }
  if (!offset)
    return make_error(Code::kUnavailable,
                      "no room for {} bytes in the shared heap of {} bytes, of which {} are "
                      "allocated; free some",
                      bytes, mapping_.size(), allocated_bytes());
  if (const int failure = back_with_pages(fd_.get(), *offset, rounded)) {
    give_pages_back(fd_.get(), *offset, rounded);
    std::scoped_lock lock(mutex_);
    give_hole_back(holes_, *offset, rounded);
    return system_error(Code::kUnavailable, failure,
                        fmt::format("backing {} bytes of the shared heap with memory", bytes));
  }
  const std::span<std::byte> memory = mapping_.subspan(*offset, bytes);
  {
    std::scoped_lock lock(mutex_);
    live_.emplace(*offset, rounded);
  }
  if (watcher_) watcher_->allocated(memory);
  return memory;
}

Status SharedHeap::free(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  const auto base = reinterpret_cast<std::uintptr_t>(mapping_.data());
  std::uint64_t bytes = 0;
  bool lost = false;
  {
    std::scoped_lock lock(mutex_);
    const auto live = address < base ? live_.end() : live_.find(address - base);
    if (live == live_.end())
      return make_error(Code::kInvalidArgument,
                        "{} does not come from this shared heap's allocate, or was freed already",
                        data);
    bytes = live->second;
    lost = overlaps(detached_, live->first, bytes);
    live_.erase(live);
  }
  const std::uint64_t offset = address - base;
  if (watcher_) watcher_->ends(mapping_.data() + offset);
  // Reusing a range whose pages did not go would break the promise of zeroes: it is lost instead.
  if (const int failure = give_pages_back(fd_.get(), offset, bytes))
    return system_error(Code::kInternal, failure, "punching a hole into the shared heap");
  if (lost) {  // a peer may still write there; what was put in its place goes
    constexpr int kNothing = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    ::mmap(mapping_.data() + offset, bytes, PROT_NONE, kNothing, -1, 0);
    return ok_status();
  }
  std::scoped_lock lock(mutex_);
  give_hole_back(holes_, offset, bytes);
  return ok_status();
}

Status SharedHeap::detach(std::span<std::byte> memory) {
  const std::uint64_t page = page_bytes();
  const auto offset = static_cast<std::uint64_t>(memory.data() - mapping_.data());
  if (memory.empty() || offset >= mapping_.size() || memory.size() > mapping_.size() - offset)
    return ok_status();
  const std::uint64_t end = (offset + memory.size() + page - 1) / page * page;
  std::scoped_lock lock(mutex_);
  if (watcher_) {
    const auto after = live_.upper_bound(offset);
    if (after != live_.begin()) watcher_->ends(mapping_.data() + std::prev(after)->first);
  }
  for (std::uint64_t at = offset / page * page; at < end;) {
    const auto next = detached_.upper_bound(at);
    if (next != detached_.begin()) {
      const auto& [begin, bytes] = *std::prev(next);
      if (begin + bytes > at) {  // private already
        at = begin + bytes;
        continue;
      }
    }
    const std::uint64_t limit = next == detached_.end() ? end : std::min(end, next->first);
    // Little at a time: what another thread writes there meanwhile may get lost.
    const std::uint64_t bytes = std::min<std::uint64_t>(limit - at, 64 * page);
    if (const int failure = make_private(mapping_.data() + at, bytes))
      return system_error(Code::kUnavailable, failure,
                          fmt::format("moving {} bytes off the shared heap", end - at));
    detached_[at] = bytes;
    any_detached_.store(true, std::memory_order_release);
    at += bytes;
  }
  return ok_status();
}

bool SharedHeap::is_shared(const std::byte* data, std::size_t bytes) const {
  const auto offset =
      reinterpret_cast<std::uintptr_t>(data) - reinterpret_cast<std::uintptr_t>(mapping_.data());
  if (offset >= mapping_.size() || bytes > mapping_.size() - offset) return false;
  if (!any_detached_.load(std::memory_order_acquire)) return true;
  std::scoped_lock lock(mutex_);
  return !overlaps(detached_, offset, bytes);
}

std::optional<std::uint64_t> SharedHeap::offset_of(const void* data, std::size_t bytes) const {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  const auto base = reinterpret_cast<std::uintptr_t>(mapping_.data());
  if (address < base || address - base >= mapping_.size()) return std::nullopt;
  const std::uint64_t offset = address - base;
  std::scoped_lock lock(mutex_);
  auto live = live_.upper_bound(offset);
  if (live == live_.begin()) return std::nullopt;
  --live;
  const std::uint64_t inside = offset - live->first;
  if (inside > live->second || bytes > live->second - inside) return std::nullopt;
  return offset;
}

std::size_t SharedHeap::allocated_bytes() const {
  std::scoped_lock lock(mutex_);
  std::size_t total = 0;
  for (const auto& [offset, bytes] : live_) total += bytes;
  return total;
}

void map_pages(std::span<std::byte> memory) {
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, since Linux 5.14
  const std::uintptr_t page = page_bytes();
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.data()) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(memory.data()) + memory.size();
  // Without it, what touches a page first waits for it.
  (void)::madvise(reinterpret_cast<void*>(begin), end - begin, kPopulateWrite);
}

Result<std::unique_ptr<PeerMapping>> PeerMapping::map(Fd fd, std::size_t bytes) {
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0)
    return system_error(Code::kPeerFailed, errno, "fstat of a peer's shared heap");
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kRequiredSeals) != kRequiredSeals)
    return make_error(Code::kPeerFailed,
                      "a peer's shared heap has seals {:#x}, which must include {:#x}: it could "
                      "shrink under this process",
                      seals, kRequiredSeals);
  if (bytes == 0 || static_cast<std::uint64_t>(status.st_size) != bytes)
    return make_error(Code::kPeerFailed, "a peer's shared heap has {} bytes, announced were {}",
                      static_cast<std::int64_t>(status.st_size), bytes);
  void* address = map_shared(fd.get(), bytes);
  if (address == MAP_FAILED)
    return system_error(
        Code::kUnavailable, errno,
        fmt::format("mapping a peer's shared heap of {} bytes; raise `ulimit -v`", bytes));
  return std::unique_ptr<PeerMapping>(
      new PeerMapping(std::span(static_cast<std::byte*>(address), bytes)));
}

PeerMapping::~PeerMapping() { ::munmap(bytes_.data(), bytes_.size()); }

}  // namespace tutti
