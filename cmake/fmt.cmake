# tutti_fmt: fmt, compiled once and linked statically, since no distribution ships it so that a
# shared library can hold it. Where this version of fmt does not let itself be compiled so, header-only.
find_package(fmt REQUIRED)
get_target_property(fmt_include fmt::fmt-header-only INTERFACE_INCLUDE_DIRECTORIES)
file(WRITE ${CMAKE_BINARY_DIR}/fmt_user.cpp
  "#include <fmt/format.h>\nint main(int n, char**) { return (int)fmt::format(\"{:>{}} {:.3f}\", n, n, 0.5 * n).size(); }\n")
try_compile(TUTTI_FMT_ONCE ${CMAKE_BINARY_DIR}/fmt_once
  SOURCES ${CMAKE_SOURCE_DIR}/cmake/fmt.cpp ${CMAKE_BINARY_DIR}/fmt_user.cpp
  CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${fmt_include}" CXX_STANDARD 20)
if(TUTTI_FMT_ONCE)
  add_library(tutti_fmt STATIC cmake/fmt.cpp)
  target_include_directories(tutti_fmt SYSTEM PUBLIC ${fmt_include})
else()
  add_library(tutti_fmt INTERFACE)
  target_link_libraries(tutti_fmt INTERFACE fmt::fmt-header-only)
endif()
