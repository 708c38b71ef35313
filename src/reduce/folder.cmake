# One file per instruction set, each compiled for it alone and chosen at run time (kernels.hpp).
# Contracting a * b + c into one rounding would make results depend on the target.
target_compile_options(tutti_src_reduce PRIVATE -ffp-contract=off)
set_property(SOURCE src/reduce/kernels_baseline.cpp src/reduce/kernels_avx2.cpp src/reduce/kernels_avx512.cpp
  PROPERTY COMPILE_DEFINITIONS HWY_COMPILE_ONLY_STATIC HWY_DISABLE_PCLMUL_AES)
set_property(SOURCE src/reduce/kernels_baseline.cpp src/reduce/kernels_avx2.cpp src/reduce/kernels_avx512.cpp
  PROPERTY SKIP_UNITY_BUILD_INCLUSION ON)

if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$")
  set_property(SOURCE src/reduce/kernels_baseline.cpp PROPERTY COMPILE_OPTIONS -march=x86-64-v2)
  set_property(SOURCE src/reduce/kernels_avx2.cpp PROPERTY COMPILE_OPTIONS -march=x86-64-v3)
  set_property(SOURCE src/reduce/kernels_avx512.cpp PROPERTY COMPILE_OPTIONS -march=x86-64-v4)
else()
  set_property(SOURCE src/reduce/kernels_avx2.cpp src/reduce/kernels_avx512.cpp PROPERTY HEADER_FILE_ONLY ON)
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
    set_property(SOURCE src/reduce/kernels_baseline.cpp PROPERTY HEADER_FILE_ONLY ON)
  endif()
endif()

# Address checks of the memory that kernels are given, and none of the registers they keep: with
# those, and with undefined-behaviour checks, each file takes minutes to compile.
if(TUTTI_SANITIZE MATCHES "address")
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    set(no_stack_checks --param=asan-stack=0)
  else()
    set(no_stack_checks -mllvm -asan-stack=0)
  endif()
  set_property(SOURCE src/reduce/kernels_baseline.cpp src/reduce/kernels_avx2.cpp src/reduce/kernels_avx512.cpp
    APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize=undefined -fno-sanitize-address-use-after-scope ${no_stack_checks})
endif()
