# The machines that tests read.
set_source_files_properties(${CMAKE_SOURCE_DIR}/src/topo/nccl/xml_test.cpp PROPERTIES
  COMPILE_DEFINITIONS TUTTI_TEST_DATA="${CMAKE_SOURCE_DIR}/tests/data/topo")
