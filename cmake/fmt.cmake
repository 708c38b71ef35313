# tutti_fmt: fmt, compiled once and linked statically, since no distribution ships it so that a
# shared library can hold it. A version of fmt whose cmake/fmt.cpp does not compile ends the build there;
# TUTTI_FMT_HEADER_ONLY gets by without it, at twice the time to compile everything else.
option(TUTTI_FMT_HEADER_ONLY "Compile fmt in every file, for versions of it that cmake/fmt.cpp does not know" OFF)
find_package(fmt REQUIRED)
get_target_property(fmt_include fmt::fmt-header-only INTERFACE_INCLUDE_DIRECTORIES)
if(TUTTI_FMT_HEADER_ONLY)
  add_library(tutti_fmt INTERFACE)
  target_link_libraries(tutti_fmt INTERFACE fmt::fmt-header-only)
else()
  add_library(tutti_fmt STATIC cmake/fmt.cpp)
  target_include_directories(tutti_fmt SYSTEM PUBLIC ${fmt_include})
endif()
