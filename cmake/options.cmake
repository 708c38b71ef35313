# Build-wide switches and warnings.
option(TUTTI_TESTS "Build the tests" ON)
option(TUTTI_FUZZ "Build the fuzz targets (clang only; preset asan)" OFF)
set(TUTTI_UNITY_FILES 16 CACHE STRING "How many files are compiled as one unit (1: each alone)")
set(TUTTI_SANITIZE "" CACHE STRING "Sanitizers for -fsanitize=, e.g. address,undefined")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

add_compile_options(-Wall -Wextra -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)  # false positives on std::string, GCC bug 105651
endif()
if(TUTTI_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options(-Wno-maybe-uninitialized)  # false positives on std::optional at -O1
endif()
if(TUTTI_SANITIZE)
  add_compile_options(-fsanitize=${TUTTI_SANITIZE} -fno-omit-frame-pointer -g1)
  add_compile_definitions(TUTTI_SANITIZED)  # clang-19 says so by no macro that g++ has as well
  if(TUTTI_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=all)
    if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
      # Functions of libraries that are opened at run time have types of their own for what they take.
      add_compile_options(-fno-sanitize=function)
    endif()
  endif()
  add_link_options(-fsanitize=${TUTTI_SANITIZE})
endif()

# What is tested is compiled as it ships; the tests themselves are not, and take half the time.
if(TUTTI_SANITIZE MATCHES "address" OR CMAKE_BUILD_TYPE STREQUAL "Release")
  set(TUTTI_TEST_FLAGS -O0)
endif()

# How release builds compile: -O2, unless the user says otherwise. FAST code: -O3. COLD code: -O1
# (cmake/targets.cmake).
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  if(CMAKE_CXX_FLAGS_RELEASE STREQUAL "-O3 -DNDEBUG")  # CMake's default
    set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
  endif()
  set(TUTTI_FAST_FLAGS -O3)
  set(TUTTI_COLD_FLAGS -O1)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND TUTTI_COLD_FLAGS -Wno-maybe-uninitialized)  # false positives on std::optional at -O1
    list(APPEND TUTTI_FAST_FLAGS --param=large-unit-insns=1000000)  # inlines in large units as in small ones
  endif()
endif()
if(TUTTI_SANITIZE MATCHES "address")
  set(TUTTI_COLD_FLAGS -O0)  # half the time, and few tests wait for this code
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ collects no garbage below 1 GiB: 8 % less time, 200 MiB more memory.
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:SHELL:--param ggc-min-heapsize=1048576>")
endif()

find_program(TUTTI_CCACHE ccache)
if(TUTTI_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${TUTTI_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${TUTTI_CCACHE})
endif()
