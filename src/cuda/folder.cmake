target_link_libraries(tutti_src_cuda PUBLIC ${CMAKE_DL_LIBS})
if(TUTTI_TESTS)
  # The library that nvml_test opens in place of the driver's.
  add_library(fake_nvml MODULE ${CMAKE_SOURCE_DIR}/src/cuda/fake_nvml.c)

  # A CUDA driver in memory: lib/fake_cuda/libcuda.so.1. Programs that find that folder first
  # (LD_LIBRARY_PATH) run on it. Its threads outlive main, so it is never unloaded.
  file(GLOB fake_cuda_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/cuda/fake/*.cpp)
  add_library(fake_cuda_parts OBJECT ${fake_cuda_sources})
  tutti_compiled(fake_cuda_parts COLD)
  target_include_directories(fake_cuda_parts PRIVATE ${CMAKE_SOURCE_DIR})
  foreach(driver fake_cuda fake_cuda_old)
    add_library(${driver} MODULE)
    target_link_libraries(${driver} PRIVATE fake_cuda_parts Threads::Threads)
    set_target_properties(${driver} PROPERTIES PREFIX "" OUTPUT_NAME libcuda SUFFIX .so.1
      LINKER_LANGUAGE CXX LIBRARY_OUTPUT_DIRECTORY ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/${driver})
    target_link_options(${driver} PRIVATE -Wl,-soname,libcuda.so.1 -Wl,-z,nodelete)
  endforeach()
  target_link_options(fake_cuda_old PRIVATE
    -Wl,--version-script=${CMAKE_SOURCE_DIR}/src/cuda/fake/old_driver.map)
  set(test_definitions FAKE_NVML="$<TARGET_FILE:fake_nvml>" FAKE_CUDA="$<TARGET_FILE:fake_cuda>"
    FAKE_CUDA_OLD="$<TARGET_FILE:fake_cuda_old>")
  if(NOT TUTTI_CUDA STREQUAL "OFF")  # NVIDIA's header is asked by that test alone
    find_path(CUDA_DRIVER_HEADER cuda.h PATHS /usr/local/cuda/include)
    if(CUDA_DRIVER_HEADER)
      set_source_files_properties(${CMAKE_SOURCE_DIR}/src/cuda/driver_abi_test.cpp PROPERTIES
        INCLUDE_DIRECTORIES ${CUDA_DRIVER_HEADER})
    endif()
  endif()
endif()
