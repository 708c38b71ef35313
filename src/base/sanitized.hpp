// For tests: whether this is a build with a sanitizer.
#pragma once

namespace tutti {

/// The sanitizers are many times slower, so tests do less of the same under them.
#if defined(TUTTI_SANITIZED)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace tutti
