target_link_libraries(tutti_src_topo_detect PRIVATE nlohmann_json::nlohmann_json)

# The machines that tests read.
set_source_files_properties(${CMAKE_SOURCE_DIR}/src/topo/detect/detect_test.cpp PROPERTIES
  COMPILE_DEFINITIONS TUTTI_TEST_DATA="${CMAKE_SOURCE_DIR}/tests/data/machines")
