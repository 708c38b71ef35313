# Small units: here people change a file and run a test. Each takes 10 to 16 seconds (2026-11-25).
if(TUTTI_UNITY_FILES GREATER 5)
  set_target_properties(tutti_src_comm PROPERTIES UNITY_BUILD_BATCH_SIZE 5)
endif()
