# Fuzz targets: folder/x_fuzz.cpp becomes the program x_fuzz, linked with the folder's library.
# Built by the preset `asan` alone, because libFuzzer comes with clang.
if(NOT TUTTI_FUZZ)
  return()
endif()
file(GLOB_RECURSE tutti_fuzzers CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}
     ${CMAKE_SOURCE_DIR}/src/*_fuzz.cpp ${CMAKE_SOURCE_DIR}/transports/*_fuzz.cpp
     ${CMAKE_SOURCE_DIR}/tools/*_fuzz.cpp ${CMAKE_SOURCE_DIR}/training/*_fuzz.cpp)
add_custom_target(fuzzers)
foreach(source ${tutti_fuzzers})
  get_filename_component(program ${source} NAME_WE)
  get_filename_component(folder ${source} DIRECTORY)
  string(REPLACE "/" "_" library tutti_${folder})
  add_executable(${program} ${CMAKE_SOURCE_DIR}/${source})
  target_link_libraries(${program} PRIVATE ${library})
  target_link_options(${program} PRIVATE -fsanitize=fuzzer)
  set_target_properties(${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
  add_dependencies(fuzzers ${program})
endforeach()
