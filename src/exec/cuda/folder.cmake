# Device code is a file of its own, lib/libtutti_device.fatbin, which the library loads where it finds a
# GPU: no program waits for nvcc. The file ends with a hash of its sources, which the library knows too
# (device_code.cpp), so that neither takes the other for its own after a change.
set(device_folder ${CMAKE_BINARY_DIR}/device)
set(device_hash_header ${device_folder}/device_sources.hpp)
set(device_trailer ${device_folder}/trailer)
file(GLOB device_headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/device/*.hpp)
set(device_sources ${CMAKE_SOURCE_DIR}/src/device/kernels.cu ${device_headers}
  ${CMAKE_SOURCE_DIR}/src/base/device_macros.hpp ${CMAKE_SOURCE_DIR}/src/base/float_formats.hpp
  ${CMAKE_SOURCE_DIR}/include/tutti/types.hpp)
add_custom_command(OUTPUT ${device_hash_header} ${device_trailer}
  COMMAND ${CMAKE_COMMAND} -DHEADER=${device_hash_header} -DTRAILER=${device_trailer}
          "-DSOURCES=${device_sources}" -P ${CMAKE_SOURCE_DIR}/cmake/device_hash.cmake
  DEPENDS ${device_sources} ${CMAKE_SOURCE_DIR}/cmake/device_hash.cmake
  COMMENT "Hashing the sources of device code" VERBATIM)
target_sources(tutti_src_exec_cuda PRIVATE ${device_hash_header})
target_include_directories(tutti_src_exec_cuda PUBLIC ${device_folder})

# Builds with sanitizers run no kernels.
#
# -fmad=false: a * b + c is rounded twice, as on the host (src/device/arithmetic.hpp).
# -compress-mode=speed: PTX compressed by LZ4, machine code not at all. Drivers before CUDA 12.4 read no zstd.
# --expt-relaxed-constexpr: device code calls constexpr functions such as std::bit_cast.
if(TUTTI_HAVE_CUDA AND NOT TUTTI_SANITIZE)
  set(device_code ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/libtutti_device.fatbin)
  set(targets -gencode arch=compute_100,code=compute_100)
  foreach(architecture 80 90 100)
    list(APPEND targets -gencode arch=compute_${architecture},code=sm_${architecture})
  endforeach()
  add_custom_command(OUTPUT ${device_code}
    COMMAND ${CMAKE_SOURCE_DIR}/.ci/ptxas_report --save ${CMAKE_BINARY_DIR}/ptxas.txt --
            ${TUTTI_NVCC} -fatbin -std=c++20 -O3 -ccbin ${CMAKE_CXX_COMPILER} -fmad=false
            --expt-relaxed-constexpr -Werror all-warnings -Xptxas -v,-warn-spills
            -compress-mode=speed --threads 0 ${targets}
            -I${CMAKE_SOURCE_DIR} -I${CMAKE_SOURCE_DIR}/include
            ${CMAKE_SOURCE_DIR}/src/device/kernels.cu -o ${device_folder}/code.fatbin
    COMMAND sh -c "cat \"$1\" \"$2\" >\"$3\"" append ${device_folder}/code.fatbin ${device_trailer} ${device_code}
    DEPENDS ${CMAKE_SOURCE_DIR}/.ci/ptxas_report ${device_sources} ${device_trailer}
    COMMENT "Compiling device code for sm_80, sm_90 and sm_100" VERBATIM)
  add_custom_target(device_code ALL DEPENDS ${device_code})
endif()

set(test_definitions FAKE_CUDA="$<TARGET_FILE:fake_cuda>")
