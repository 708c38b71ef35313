# tutti-tune, and the tests of its pure parts.
add_library(tutti_tune_parts STATIC tune_cell.cpp tune_options.cpp tune_report.cpp tune_ways.cpp)
target_link_libraries(tutti_tune_parts PUBLIC tutti_bench_parts tutti_src_cost tutti_src_lower
  tutti_algorithms)

if(TARGET tutti_nccl AND TARGET tutti_library)
  tutti_program(tutti-tune SOURCES tune.cpp tune_meter.cpp tune_run.cpp bench_crew.cpp bench_gpu.cpp bench_series.cpp
    LINKS tutti_tune_parts tutti_src_cuda tutti_src_reduce tutti_nccl tutti_library)
  set_target_properties(tutti-tune PROPERTIES INSTALL_RPATH
    "$ORIGIN/../${CMAKE_INSTALL_LIBDIR};$ORIGIN/../${CMAKE_INSTALL_LIBDIR}/tutti/nccl-compat/lib")
  if(TUTTI_TESTS)
    tutti_test(tune_test SOURCES tune_test.cpp LINKS tutti_tune_parts)
    target_compile_definitions(tune_test PRIVATE TUTTI_TUNE_PROGRAM="$<TARGET_FILE:tutti-tune>")
    add_dependencies(tune_test tutti-tune)
  endif()
endif()
