# tutti-sim and its tests.
add_library(tutti_sim_parts STATIC
  bench_sizes.cpp sim_bound.cpp sim_chart.cpp sim_heat.cpp sim_machine.cpp sim_options.cpp
  sim_report.cpp sim_run.cpp sim_svg.cpp sim_timeline.cpp)
target_link_libraries(tutti_sim_parts PUBLIC tutti_tools tutti_topo_parts tutti_algorithms tutti_src_sim
  tutti_src_topo_forest CLI11::CLI11 nlohmann_json::nlohmann_json)

tutti_program(tutti-sim SOURCES sim.cpp LINKS tutti_sim_parts)

if(TUTTI_TESTS)
  tutti_test(sim_tool_test SECONDS 300 SOURCES sim_test.cpp LINKS tutti_sim_parts)
  target_compile_definitions(sim_tool_test PRIVATE TUTTI_SIM_PROGRAM="$<TARGET_FILE:tutti-sim>")
  add_dependencies(sim_tool_test tutti-sim)
endif()
