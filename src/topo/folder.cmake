target_link_libraries(tutti_src_topo PRIVATE nlohmann_json::nlohmann_json)

# XML is read by the static pugixml: nothing to find at run time.
target_include_directories(tutti_src_topo SYSTEM PUBLIC ${PUGIXML_INCLUDE})
target_link_libraries(tutti_src_topo PUBLIC ${PUGIXML_STATIC})

# The machines that tests read.
set_source_files_properties(${CMAKE_SOURCE_DIR}/src/topo/nccl_xml_test.cpp PROPERTIES
  COMPILE_DEFINITIONS TUTTI_TEST_DATA="${CMAKE_SOURCE_DIR}/tests/data/topo")
foreach(test detect hwloc_xml)
  set_source_files_properties(${CMAKE_SOURCE_DIR}/src/topo/${test}_test.cpp PROPERTIES
    COMPILE_DEFINITIONS TUTTI_TEST_DATA="${CMAKE_SOURCE_DIR}/tests/data/machines")
endforeach()

include(${CMAKE_SOURCE_DIR}/cmake/presets.cmake)
