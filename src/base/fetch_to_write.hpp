// Asking for a cache line before it is written.
#pragma once

namespace tutti {

/// A hint; `line` may be any address. __builtin_prefetch means another instruction where the
/// compiler may not assume this one, which all 64-bit processors decode. Always inlined, since
/// files compiled for several instruction sets include it.
[[gnu::always_inline]] inline void fetch_to_write(const void* line) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

}  // namespace tutti
