# tutti_compiled(target [FAST|COLD]): how the sources of a target are compiled. Many at a time, as one unit:
# most of what a file takes to compile is headers, and those are then read once. FAST: each small call or
# each element passes here, so it is worth a third more time to compile. COLD: nobody waits for this code.
function(tutti_compiled target)
  cmake_parse_arguments(ARG "FAST;COLD" "" "" ${ARGN})
  if(TUTTI_UNITY_FILES GREATER 1)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${TUTTI_UNITY_FILES})
  endif()
  if(ARG_COLD)
    target_compile_options(${target} PRIVATE ${TUTTI_COLD_FLAGS})
  elseif(ARG_FAST)
    target_compile_options(${target} PRIVATE ${TUTTI_FAST_FLAGS})
  endif()
  # The linker drops what a unit has and the library does not use.
  target_compile_options(${target} PRIVATE -ffunction-sections)
endfunction()

# tutti_folder(path [FAST|COLD] [DEPENDS folder...]): a static library from path/*.cpp, named after the
# path (src/ir -> tutti_src_ir), and path/*_test.cpp as one test program per folder.
function(tutti_folder path)
  cmake_parse_arguments(ARG "FAST;COLD" "" "DEPENDS" ${ARGN})
  set(speed "")
  foreach(option FAST COLD)
    if(ARG_${option})
      set(speed ${option})
    endif()
  endforeach()
  string(REPLACE "/" "_" name ${path})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${path}/*.cpp)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_(test|fuzz)\\.cpp$")
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")

  set(links tutti_fmt Threads::Threads)
  if(NOT path STREQUAL "src/base")
    list(APPEND links tutti_src_base)
  endif()
  foreach(dependency ${ARG_DEPENDS})
    string(REPLACE "/" "_" dependency_name ${dependency})
    list(APPEND links tutti_${dependency_name})
  endforeach()

  if(sources)
    add_library(tutti_${name} STATIC ${sources})
    tutti_compiled(tutti_${name} ${speed})
    set(scope PUBLIC)
  else()
    add_library(tutti_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(tutti_${name} ${scope} ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/include)
  target_link_libraries(tutti_${name} ${scope} ${links})
  set(test_definitions "")
  set(test_needs "")  # targets that the test opens at run time
  if(EXISTS ${CMAKE_SOURCE_DIR}/${path}/folder.cmake)
    include(${CMAKE_SOURCE_DIR}/${path}/folder.cmake)  # what is special about this folder
  endif()

  if(TUTTI_TESTS AND tests)
    tutti_test(${name}_test SOURCES ${tests} LINKS tutti_${name})
    target_compile_definitions(${name}_test PRIVATE ${test_definitions})
    if(test_needs)
      add_dependencies(${name}_test ${test_needs})
    endif()
  endif()
endfunction()

# tutti_precompiled_googletest(test): lets it use GoogleTest's headers, which take longer to compile than
# most tests, as they were compiled once for all tests with the same flags. The build with the address
# sanitizer does without, and finds most includes that a test lacks. So do those with a compiler cache,
# which keeps tests but no precompiled headers.
function(tutti_precompiled_googletest test)
  if(CMAKE_BUILD_TYPE STREQUAL "Debug" OR TUTTI_SANITIZE MATCHES "address" OR TUTTI_CCACHE)
    return()
  endif()
  set(compiled tutti_googletest${TUTTI_TEST_FLAGS})
  if(NOT TARGET ${compiled})
    set(empty ${CMAKE_BINARY_DIR}/${compiled}.cpp)
    file(CONFIGURE OUTPUT ${empty} CONTENT "")
    add_executable(${compiled} ${empty})  # compiled like the tests, whose flags differ from a library's
    target_compile_options(${compiled} PRIVATE ${TUTTI_TEST_FLAGS})
    target_link_libraries(${compiled} PRIVATE GTest::gtest GTest::gmock GTest::gtest_main)
    target_precompile_headers(${compiled} PRIVATE <gmock/gmock.h> <gtest/gtest.h>)
  endif()
  target_precompile_headers(${test} REUSE_FROM ${compiled})
endfunction()

# tutti_test(name SOURCES ... LINKS ... [LABELS quick|slow ...] [SECONDS n] [ALONE]): a GoogleTest
# program, each of its tests a ctest test. Default label quick, default limit 60 s. ALONE: its tests
# run beside no other, because they hold the library to times of a second or so. Those with the
# highest limits start first, or the longest would be left to run alone at the end.
include(GoogleTest)
function(tutti_test name)
  cmake_parse_arguments(ARG "ALONE" "SECONDS" "SOURCES;LINKS;LABELS" ${ARGN})
  if(NOT ARG_LABELS)
    set(ARG_LABELS quick)
  endif()
  if(NOT ARG_SECONDS)
    set(ARG_SECONDS 60)
  endif()
  if(TUTTI_SANITIZE)
    math(EXPR ARG_SECONDS "${ARG_SECONDS} * 5")
  endif()
  set(alone FALSE)
  if(ARG_ALONE)
    set(alone TRUE)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  tutti_compiled(${name})
  target_compile_options(${name} PRIVATE ${TUTTI_TEST_FLAGS})
  tutti_precompiled_googletest(${name})
  if(TARGET fake_cuda)
    add_dependencies(${name} fake_nvml fake_cuda fake_cuda_old)  # opened at run time
  endif()
  if(TARGET fake_verbs)
    add_dependencies(${name} fake_verbs)
  endif()
  target_link_libraries(${name} PRIVATE ${ARG_LINKS} GTest::gtest GTest::gmock GTest::gtest_main)
  gtest_discover_tests(${name} TEST_PREFIX ${name}/ DISCOVERY_MODE PRE_TEST
    PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_SECONDS} COST ${ARG_SECONDS} RUN_SERIAL ${alone}
               ENVIRONMENT TUTTI_TUNING_FILE=none)  # a test leaves no verdicts behind
endfunction()
