target_link_libraries(tutti_src_topo_detect PRIVATE nlohmann_json::nlohmann_json)

# The machines that tests read.
set(test_definitions TUTTI_TEST_DATA="${CMAKE_SOURCE_DIR}/tests/data/machines")
