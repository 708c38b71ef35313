// Prefetches a cache line for writing.
#pragma once

namespace tutti {

/// A hint; `line` may be any address. It names the instruction itself: for builds that may not
/// assume prefetchw, __builtin_prefetch emits another one, although all 64-bit processors decode
/// prefetchw. Always inlined, because files compiled for different instruction sets include it.
[[gnu::always_inline]] inline void fetch_to_write(const void* line) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

}  // namespace tutti
