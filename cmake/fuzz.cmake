# Fuzz targets: folder/x_fuzz.cpp becomes the program x_fuzz, linked with the folder's library.
# Built by the preset `asan` alone, because libFuzzer comes with clang. What a fuzzer steers by, the branches
# taken, is noted by the code of that library and of those below; elsewhere it would cost the tests time.
if(NOT TUTTI_FUZZ)
  return()
endif()
file(GLOB_RECURSE tutti_fuzzers CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}
     ${CMAKE_SOURCE_DIR}/src/*_fuzz.cpp ${CMAKE_SOURCE_DIR}/transports/*_fuzz.cpp
     ${CMAKE_SOURCE_DIR}/tools/*_fuzz.cpp ${CMAKE_SOURCE_DIR}/training/*_fuzz.cpp)
add_custom_target(fuzzers)
set(tutti_steering tutti_src_base tutti_src_topo_job tutti_src_topo_model)
foreach(source ${tutti_fuzzers})
  get_filename_component(program ${source} NAME_WE)
  get_filename_component(folder ${source} DIRECTORY)
  string(REPLACE "/" "_" library tutti_${folder})
  add_executable(${program} ${CMAKE_SOURCE_DIR}/${source})
  list(APPEND tutti_steering ${library} ${program})
  target_compile_options(${program} PRIVATE ${TUTTI_TEST_FLAGS})
  target_link_libraries(${program} PRIVATE ${library})
  target_link_options(${program} PRIVATE -fsanitize=fuzzer)
  set_target_properties(${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
  add_dependencies(fuzzers ${program})
endforeach()
list(REMOVE_DUPLICATES tutti_steering)
foreach(target ${tutti_steering})
  target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
endforeach()
