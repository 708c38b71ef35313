# The kernels, where there is an nvcc: a fatbin that device_code.cpp takes in. CMake's own CUDA
# language would want a toolkit that can link programs; this needs the compiler alone. Builds with
# sanitizers run no kernels.
#
# -fmad=false: a * b + c is rounded twice, as on the host (src/device/arithmetic.hpp).
# --expt-relaxed-constexpr: device code calls constexpr functions such as std::bit_cast.
find_program(TUTTI_NVCC nvcc HINTS "${CUDAToolkit_NVCC_EXECUTABLE}" ENV CUDA_PATH PATHS /usr/local/cuda/bin
  PATH_SUFFIXES bin)
if(TUTTI_HAVE_CUDA AND TUTTI_NVCC AND NOT TUTTI_SANITIZE)
  set(device_code ${CMAKE_BINARY_DIR}/device_code.fatbin)
  file(GLOB device_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/device/*.hpp)
  set(targets -gencode arch=compute_100,code=compute_100)
  foreach(architecture 80 90 100)
    list(APPEND targets -gencode arch=compute_${architecture},code=sm_${architecture})
  endforeach()
  add_custom_command(OUTPUT ${device_code}
    COMMAND ${CMAKE_SOURCE_DIR}/.ci/ptxas_report --save ${CMAKE_BINARY_DIR}/ptxas.txt --
            ${TUTTI_NVCC} -fatbin -std=c++20 -O3 -ccbin ${CMAKE_CXX_COMPILER} -fmad=false
            --expt-relaxed-constexpr -Werror all-warnings -Xptxas -v,-warn-spills
            -compress-mode=size --threads 0 ${targets}
            -I${CMAKE_SOURCE_DIR} -I${CMAKE_SOURCE_DIR}/include
            ${CMAKE_SOURCE_DIR}/src/device/kernels.cu -o ${device_code}
    DEPENDS ${CMAKE_SOURCE_DIR}/.ci/ptxas_report ${CMAKE_SOURCE_DIR}/src/device/kernels.cu
            ${device_sources} ${CMAKE_SOURCE_DIR}/src/base/float_formats.hpp
            ${CMAKE_SOURCE_DIR}/include/tutti/types.hpp
    COMMENT "Compiling device code for sm_80, sm_90 and sm_100" VERBATIM)
  set_property(SOURCE src/exec/cuda/device_code.cpp PROPERTY OBJECT_DEPENDS ${device_code})
  set_property(SOURCE src/exec/cuda/device_code.cpp
    PROPERTY COMPILE_DEFINITIONS "TUTTI_DEVICE_CODE=\"${device_code}\"")
  target_compile_definitions(tutti_src_exec_cuda PUBLIC TUTTI_HAVE_DEVICE_CODE)
endif()
