# PMIx is opened at run time; only its header is needed, and only to build.
find_path(PMIX_INCLUDE pmix.h PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}
  PATH_SUFFIXES pmix2/include pmix/include)
if(PMIX_INCLUDE)
  set_source_files_properties(${CMAKE_SOURCE_DIR}/src/bootstrap/pmix.cpp PROPERTIES
    COMPILE_DEFINITIONS TUTTI_HAVE_PMIX=1 INCLUDE_DIRECTORIES ${PMIX_INCLUDE})
endif()
get_target_property(bootstrap_type tutti_src_bootstrap TYPE)
if(NOT bootstrap_type STREQUAL "INTERFACE_LIBRARY")
  target_link_libraries(tutti_src_bootstrap PUBLIC ${CMAKE_DL_LIBS})
endif()
