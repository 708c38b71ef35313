# Small units: here people change a file and run a test. Each compiles in ten seconds.
if(TUTTI_UNITY_FILES GREATER 5)
  set_target_properties(tutti_src_comm PROPERTIES UNITY_BUILD_BATCH_SIZE 5)
endif()
