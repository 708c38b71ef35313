# The target `headers` compiles each header of ours alone, twice included, to prove that it brings what
# it needs and has a guard. Not part of `all`; .ci/run builds it.
set(tutti_header_folders include src algorithms transports training tools)
set(tutti_headers "")
foreach(folder ${tutti_header_folders})
  file(GLOB_RECURSE found CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}
       ${CMAKE_SOURCE_DIR}/${folder}/*.hpp ${CMAKE_SOURCE_DIR}/${folder}/*.h)
  list(APPEND tutti_headers ${found})
endforeach()
# Bodies of a foreach-target construct are included many times by design and are no headers.
list(FILTER tutti_headers EXCLUDE REGEX "(-inl|\\.inc)\\.(h|hpp)$")

if(NOT TUTTI_HAVE_TORCH)
  list(FILTER tutti_headers EXCLUDE REGEX "^training/torch/|^tools/train/(model|trainer)\\.hpp$")
endif()

set(tutti_header_sources "")
foreach(header ${tutti_headers})
  string(REPLACE "/" "_" unit ${header})
  set(languages cpp)
  if(header MATCHES "^include/[^/]*\\.h$")
    list(APPEND languages c)  # the C API is C99
  endif()
  string(REGEX REPLACE "^include/" "" spelling ${header})
  foreach(language ${languages})
    set(source ${CMAKE_BINARY_DIR}/headers/${unit}.${language})
    file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${spelling}\"\n#include \"${spelling}\"\n" @ONLY)
    list(APPEND tutti_header_sources ${source})
  endforeach()
endforeach()

add_library(headers OBJECT EXCLUDE_FROM_ALL ${tutti_header_sources})
target_include_directories(headers PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/include
                           ${HWY_INCLUDE} ${SODIUM_INCLUDE_DIRS} ${PUGIXML_INCLUDE})
if(TUTTI_HAVE_TORCH)
  target_link_libraries(headers PRIVATE torch)
endif()
target_link_libraries(headers PRIVATE tutti_fmt CLI11::CLI11 nlohmann_json::nlohmann_json)
target_compile_definitions(headers PRIVATE FAKE_CUDA="")  # a file that headers of tests name
target_compile_options(headers PRIVATE -O0)
