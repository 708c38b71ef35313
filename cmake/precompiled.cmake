# Precompiled headers, for a build of everything from nothing by clang: a second less for each file. Off
# by default, since they hide includes that are missing, and what was compiled with them a compiler
# cache cannot give to another clone.
#
# tutti_precompiled(TARGET library|tests): TARGET uses those of libraries or of test programs.
if(TUTTI_PCH)
  set(headers <algorithm> <array> <atomic> <chrono> <cmath> <cstdint> <cstdlib> <cstring> <filesystem>
    <functional> <map> <memory> <mutex> <numeric> <optional> <random> <set> <span> <string> <string_view>
    <thread> <tuple> <utility> <vector> <fmt/format.h>)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/precompiled.cpp CONTENT "int main() {}\n" @ONLY)
  add_library(tutti_precompiled_library STATIC ${CMAKE_BINARY_DIR}/precompiled.cpp)
  target_link_libraries(tutti_precompiled_library PRIVATE tutti_fmt Threads::Threads)
  target_precompile_headers(tutti_precompiled_library PRIVATE ${headers})
  if(TUTTI_TESTS)
    add_executable(tutti_precompiled_tests ${CMAKE_BINARY_DIR}/precompiled.cpp)
    target_compile_options(tutti_precompiled_tests PRIVATE ${TUTTI_TEST_FLAGS})
    target_link_libraries(tutti_precompiled_tests PRIVATE tutti_fmt Threads::Threads GTest::gtest GTest::gmock)
    target_precompile_headers(tutti_precompiled_tests PRIVATE ${headers} <gmock/gmock.h> <gtest/gtest.h>)
  endif()
endif()

function(tutti_precompiled target kind)
  if(TUTTI_PCH)
    target_precompile_headers(${target} REUSE_FROM tutti_precompiled_${kind})
  endif()
endfunction()
