# What the build finds, and a report of it. Required parts are Debian packages that
# tools/quickstart installs. Optional parts follow TUTTI_<NAME>=AUTO|ON|OFF: AUTO uses what is
# found, ON makes a missing part an error, OFF does not look.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
include(cmake/fmt.cmake)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
pkg_check_modules(SODIUM REQUIRED libsodium)
find_library(SODIUM_STATIC NAMES libsodium.a REQUIRED)
find_library(PUGIXML_STATIC NAMES libpugixml.a REQUIRED)
find_path(PUGIXML_INCLUDE pugixml.hpp REQUIRED)
find_path(HWY_INCLUDE hwy/highway.h REQUIRED)

set(TUTTI_DEPENDENCY_REPORT "")

# tutti_optional(NAME "Title" "what it is used for" FOUND_VARIABLE version): after the search, sets
# TUTTI_HAVE_<NAME>, adds a line to the report and enforces TUTTI_<NAME>=ON.
function(tutti_optional name title use found version)
  if(TUTTI_${name} STREQUAL "OFF")
    set(state "off")
    set(have OFF)
  elseif(${found})
    set(state "found ${version}")
    set(have ON)
  elseif(TUTTI_${name} STREQUAL "ON")
    message(FATAL_ERROR "${title} was not found, and TUTTI_${name}=ON asks for it: install it or set TUTTI_${name}=AUTO")
  else()
    set(state "not found")
    set(have OFF)
  endif()
  set(TUTTI_HAVE_${name} ${have} PARENT_SCOPE)
  string(STRIP "${state}" state)
  string(LENGTH "${title}" title_length)
  string(LENGTH "${state}" state_length)
  math(EXPR title_gap "20 - ${title_length}")
  math(EXPR state_gap "20 - ${state_length}")
  string(REPEAT " " ${title_gap} title_gap)
  string(REPEAT " " ${state_gap} state_gap)
  set(TUTTI_DEPENDENCY_REPORT
      "${TUTTI_DEPENDENCY_REPORT}\n--   ${title}${title_gap}${state}${state_gap}${use}" PARENT_SCOPE)
endfunction()

foreach(name CUDA IBVERBS UCX HWLOC GTEST BENCHMARK TORCH)
  set(TUTTI_${name} AUTO CACHE STRING "Use ${name}: AUTO, ON or OFF")
  set_property(CACHE TUTTI_${name} PROPERTY STRINGS AUTO ON OFF)
  if(NOT TUTTI_${name} MATCHES "^(AUTO|ON|OFF)$")
    message(FATAL_ERROR "TUTTI_${name}=${TUTTI_${name}} is not one of AUTO, ON, OFF")
  endif()
endforeach()

# The compiler alone is needed, and CMake 3.25 does not find toolkits from 13.0 on.
if(NOT TUTTI_CUDA STREQUAL "OFF")
  find_program(TUTTI_NVCC nvcc HINTS ENV CUDA_PATH PATHS /usr/local/cuda/bin PATH_SUFFIXES bin)
endif()
if(TUTTI_NVCC)
  execute_process(COMMAND ${TUTTI_NVCC} --version OUTPUT_VARIABLE nvcc_version ERROR_QUIET)
  string(REGEX MATCH "release ([0-9.]+)" nvcc_version "${nvcc_version}")
  set(nvcc_version "${CMAKE_MATCH_1}")
endif()
tutti_optional(CUDA "CUDA Toolkit" "kernels for GPUs: libtutti_device.fatbin"
               TUTTI_NVCC "${nvcc_version}")

if(NOT TUTTI_IBVERBS STREQUAL "OFF")
  pkg_check_modules(IBVERBS QUIET libibverbs)
endif()
tutti_optional(IBVERBS "libibverbs" "RDMA: its headers; the library is opened at run time"
               IBVERBS_FOUND "${IBVERBS_VERSION}")

if(NOT TUTTI_UCX STREQUAL "OFF")
  pkg_check_modules(UCX QUIET ucx)
endif()
tutti_optional(UCX "UCX" "more networks: its headers; the library is opened at run time"
               UCX_FOUND "${UCX_VERSION}")

if(NOT TUTTI_HWLOC STREQUAL "OFF")
  pkg_check_modules(HWLOC QUIET hwloc)
endif()
tutti_optional(HWLOC "hwloc" "topology detection: opened at run time, not needed to build"
               HWLOC_FOUND "${HWLOC_VERSION}")

if(NOT TUTTI_GTEST STREQUAL "OFF")
  find_package(GTest QUIET)
endif()
tutti_optional(GTEST "GoogleTest" "the tests (TUTTI_TESTS)" GTest_FOUND "${GTest_VERSION}")

if(NOT TUTTI_BENCHMARK STREQUAL "OFF")
  find_package(benchmark QUIET)
endif()
tutti_optional(BENCHMARK "Google Benchmark" "perf/: benchmarks of the inner pieces"
               benchmark_FOUND "${benchmark_VERSION}")

if(NOT TUTTI_TORCH STREQUAL "OFF")
  set(CMAKE_MESSAGE_LOG_LEVEL WARNING)  # it tells what it finds, QUIET or not
  find_package(Torch QUIET)
  unset(CMAKE_MESSAGE_LOG_LEVEL)
endif()
tutti_optional(TORCH "LibTorch" "training/torch (Debian has it in libtorch-dev)"
               Torch_FOUND "${Torch_VERSION}")

message(STATUS "Optional parts (TUTTI_<NAME>=AUTO|ON|OFF):${TUTTI_DEPENDENCY_REPORT}")

if(TUTTI_TESTS AND NOT TUTTI_HAVE_GTEST)
  message(STATUS "GoogleTest was not found: no tests are built (TUTTI_GTEST=ON makes this an error)")
  set(TUTTI_TESTS OFF)
endif()
