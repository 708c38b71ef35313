target_link_libraries(tutti_src_cuda PUBLIC ${CMAKE_DL_LIBS})
if(TUTTI_TESTS)
  # The library that nvml_test opens in place of the driver's.
  add_library(fake_nvml MODULE ${CMAKE_SOURCE_DIR}/src/cuda/fake_nvml.c)
  add_dependencies(tutti_src_cuda fake_nvml)
  set_source_files_properties(${CMAKE_SOURCE_DIR}/src/cuda/nvml_test.cpp PROPERTIES
    COMPILE_DEFINITIONS "FAKE_NVML=\"$<TARGET_FILE:fake_nvml>\"")
endif()
