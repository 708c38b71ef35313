# tutti-dropin, the auditor that it loads into programs, and their tests.
add_library(tutti_dropin_parts STATIC dropin_calls.cpp dropin_report.cpp dropin_run.cpp dropin_users.cpp)
target_link_libraries(tutti_dropin_parts PUBLIC tutti_tools)
target_compile_definitions(tutti_dropin_parts PRIVATE TUTTI_LIBDIR="${CMAKE_INSTALL_LIBDIR}")

if(TARGET tutti_nccl AND TARGET tutti_library)
  tutti_program(tutti-dropin SOURCES dropin.cpp LINKS tutti_dropin_parts)
  add_library(tutti_audit MODULE dropin_audit.c)
  # It runs in the dynamic linker, before any sanitizer could.
  target_compile_options(tutti_audit PRIVATE -fvisibility=hidden -fno-sanitize=all)
  set_target_properties(tutti_audit PROPERTIES LINK_OPTIONS "-fno-sanitize=all")
  add_dependencies(tutti-dropin tutti_audit tutti_library tutti_nccl)
  install(TARGETS tutti_audit LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/tutti COMPONENT tools)
  if(TUTTI_TESTS)
    tutti_test(dropin_test SOURCES dropin_test.cpp LINKS tutti_dropin_parts)
    if(NOT TUTTI_SANITIZE)  # programs that are not built so cannot load libraries that are
      tutti_test(dropin_program_test SOURCES dropin_program_test.cpp LINKS tutti_dropin_parts)
      target_compile_definitions(dropin_program_test PRIVATE
        TUTTI_DROPIN_PROGRAM="$<TARGET_FILE:tutti-dropin>" TUTTI_NCCL_LIBRARY="$<TARGET_SONAME_FILE:tutti_nccl>"
        TUTTI_C_COMPILER="${CMAKE_C_COMPILER}")
      add_dependencies(dropin_program_test tutti-dropin)
    endif()
  endif()
endif()
