// The one compilation of fmt: included header-only, it is more than half of the time that most of
// our files take to compile.
#include <fmt/format-inl.h>

// Declared elsewhere as made here.
template char fmt::detail::decimal_point_impl<char>(fmt::detail::locale_ref);
template fmt::detail::thousands_sep_result<char> fmt::detail::thousands_sep_impl<char>(
    fmt::detail::locale_ref);
