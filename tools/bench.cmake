# tutti-bench, its nccl-tests names, and the tests of its pure parts.
add_library(tutti_bench_parts STATIC
  bench_data.cpp bench_json.cpp bench_launch.cpp bench_numbers.cpp bench_options.cpp
  bench_report.cpp bench_shape.cpp bench_sizes.cpp bench_stats.cpp)
target_compile_definitions(tutti_bench_parts PUBLIC TUTTI_BENCH_VERSION="${PROJECT_VERSION}")
target_link_libraries(tutti_bench_parts PUBLIC tutti_tools CLI11::CLI11 nlohmann_json::nlohmann_json)

if(TUTTI_TESTS)
  tutti_test(bench_test SOURCES bench_test.cpp bench_data_test.cpp bench_launch_test.cpp
    LINKS tutti_bench_parts)
endif()

# The program calls NCCL's functions as any user's program does: through the shared libraries.
if(TARGET tutti_nccl AND TARGET tutti_library)
  tutti_program(tutti-bench SOURCES bench.cpp bench_crew.cpp bench_run.cpp bench_series.cpp
    LINKS tutti_bench_parts tutti_nccl tutti_library)
  set_target_properties(tutti-bench PROPERTIES INSTALL_RPATH
    "$ORIGIN/../${CMAKE_INSTALL_LIBDIR};$ORIGIN/../${CMAKE_INSTALL_LIBDIR}/tutti/nccl-compat/lib")
  foreach(test all_reduce all_gather reduce_scatter broadcast reduce alltoall gather scatter sendrecv)
    add_custom_command(TARGET tutti-bench POST_BUILD
      COMMAND ${CMAKE_COMMAND} -E create_symlink tutti-bench ${test}_perf
      WORKING_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
    install(FILES ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/${test}_perf DESTINATION bin COMPONENT tools)
  endforeach()
endif()
