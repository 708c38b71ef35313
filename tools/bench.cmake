# tutti-bench, its nccl-tests names, and the tests of its pure parts.
add_library(tutti_bench_parts STATIC
  bench_data.cpp bench_json.cpp bench_launch.cpp bench_limit.cpp bench_numbers.cpp bench_options.cpp
  bench_report.cpp bench_shape.cpp bench_sizes.cpp bench_stats.cpp bench_wrong.cpp)
target_link_libraries(tutti_bench_parts PUBLIC tutti_tools tutti_algorithms tutti_src_ir CLI11::CLI11
  nlohmann_json::nlohmann_json)

if(TUTTI_TESTS)
  tutti_test(bench_test SOURCES bench_test.cpp bench_data_test.cpp bench_launch_test.cpp
    bench_wrong_test.cpp LINKS tutti_bench_parts)
endif()

# The program calls NCCL's functions as any user's program does: through the shared libraries.
if(TARGET tutti_nccl AND TARGET tutti_library)
  tutti_program(tutti-bench SOURCES bench.cpp bench_crew.cpp bench_gpu.cpp bench_probe.cpp bench_run.cpp bench_series.cpp
    LINKS tutti_bench_parts tutti_src_cost tutti_src_cuda tutti_src_reduce tutti_nccl tutti_library)
  set_target_properties(tutti-bench PROPERTIES INSTALL_RPATH
    "$ORIGIN/../${CMAKE_INSTALL_LIBDIR};$ORIGIN/../${CMAKE_INSTALL_LIBDIR}/tutti/nccl-compat/lib")
  foreach(test all_reduce all_gather reduce_scatter broadcast reduce alltoall gather scatter sendrecv)
    add_custom_command(TARGET tutti-bench POST_BUILD
      COMMAND ${CMAKE_COMMAND} -E create_symlink tutti-bench ${test}_perf
      WORKING_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
    install(FILES ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/${test}_perf DESTINATION bin COMPONENT tools)
  endforeach()

  tutti_program(tutti-calibrate SOURCES calibrate.cpp calibrate_measure.cpp
    LINKS tutti_bench_parts tutti_src_cost tutti_src_reduce tutti_nccl tutti_library)
  set_target_properties(tutti-calibrate PROPERTIES INSTALL_RPATH
    "$ORIGIN/../${CMAKE_INSTALL_LIBDIR};$ORIGIN/../${CMAKE_INSTALL_LIBDIR}/tutti/nccl-compat/lib")

  if(TUTTI_TESTS)
    add_library(bench_spoiler MODULE bench_spoiler.cpp)
    target_link_libraries(bench_spoiler PRIVATE NCCL::nccl ${CMAKE_DL_LIBS})
    tutti_test(bench_program_test SOURCES bench_program_test.cpp LINKS tutti_tools)
    target_compile_definitions(bench_program_test PRIVATE
      TUTTI_BENCH_PROGRAM="$<TARGET_FILE:tutti-bench>" TUTTI_BENCH_SPOILER="$<TARGET_FILE:bench_spoiler>")
    add_dependencies(bench_program_test tutti-bench bench_spoiler)
    tutti_test(calibrate_test SOURCES calibrate_test.cpp LINKS tutti_tools tutti_src_cost)
    target_compile_definitions(calibrate_test PRIVATE TUTTI_CALIBRATE_PROGRAM="$<TARGET_FILE:tutti-calibrate>")
    add_dependencies(calibrate_test tutti-calibrate)
  endif()
endif()
