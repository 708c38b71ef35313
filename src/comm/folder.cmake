# Small units: here people change a file and run a test. Each takes 8 to 13 seconds (2026-11-25).
if(TUTTI_UNITY_FILES GREATER 5)
  set_target_properties(tutti_src_comm PROPERTIES UNITY_BUILD_BATCH_SIZE 5)
  set_source_files_properties(${CMAKE_SOURCE_DIR}/src/comm/plan_cache.cpp PROPERTIES
                              SKIP_UNITY_BUILD_INCLUSION ON)  # as long as several others
endif()
