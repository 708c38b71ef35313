if(TUTTI_TESTS)  # on the driver in memory
  file(GLOB cuda_p2p_tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/transports/cuda_p2p/*_test.cpp)
  set_source_files_properties(${cuda_p2p_tests} PROPERTIES COMPILE_DEFINITIONS
    "FAKE_CUDA=\"$<TARGET_FILE:fake_cuda>\";FAKE_CUDA_OLD=\"$<TARGET_FILE:fake_cuda_old>\"")
endif()
