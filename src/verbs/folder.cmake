target_link_libraries(tutti_src_verbs PUBLIC ${CMAKE_DL_LIBS})
if(TUTTI_TESTS)
  # A verbs library in memory: lib/fake_verbs/libibverbs.so.1. Programs that find that folder first
  # (LD_LIBRARY_PATH) run on it. Its thread outlives main, so it is never unloaded.
  file(GLOB fake_verbs_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/verbs/fake/*.cpp)
  add_library(fake_verbs MODULE ${fake_verbs_sources})
  tutti_compiled(fake_verbs COLD)
  target_include_directories(fake_verbs PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(fake_verbs PRIVATE Threads::Threads nlohmann_json::nlohmann_json)
  set_target_properties(fake_verbs PROPERTIES PREFIX "" OUTPUT_NAME libibverbs SUFFIX .so.1
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/fake_verbs)
  target_link_options(fake_verbs PRIVATE -Wl,-soname,libibverbs.so.1 -Wl,-z,nodelete)
  set(test_definitions FAKE_VERBS_LIBRARY="$<TARGET_FILE:fake_verbs>")
endif()
