# Build-wide switches and warnings.
option(TUTTI_TESTS "Build the tests" ON)
option(TUTTI_FUZZ "Build the fuzz targets (clang only; preset fuzz)" OFF)
set(TUTTI_SANITIZE "" CACHE STRING "Sanitizers for -fsanitize=, e.g. address,undefined")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

add_compile_options(-Wall -Wextra -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)  # false positives on std::string, GCC bug 105651
endif()
if(TUTTI_SANITIZE)
  add_compile_options(-fsanitize=${TUTTI_SANITIZE} -fno-omit-frame-pointer -g1)
  if(TUTTI_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=all)
  endif()
  add_link_options(-fsanitize=${TUTTI_SANITIZE})
endif()

find_program(TUTTI_CCACHE ccache)
if(TUTTI_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${TUTTI_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${TUTTI_CCACHE})
endif()
