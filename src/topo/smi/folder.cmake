# The matrices that tests read.
set(test_definitions TUTTI_TEST_DATA="${CMAKE_SOURCE_DIR}/tests/data/machines")
