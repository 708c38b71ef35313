# tutti-sim and its tests.
add_library(tutti_sim_parts STATIC
  bench_sizes.cpp sim_bound.cpp sim_chart.cpp sim_heat.cpp sim_limit.cpp sim_machine.cpp sim_options.cpp
  sim_report.cpp sim_run.cpp sim_svg.cpp sim_timeline.cpp)
target_link_libraries(tutti_sim_parts PUBLIC tutti_tools tutti_topo_parts tutti_algorithms tutti_src_cost tutti_src_sim
  tutti_src_topo_forest CLI11::CLI11 nlohmann_json::nlohmann_json)

tutti_program(tutti-sim SOURCES sim.cpp LINKS tutti_sim_parts)

# tutti-explain and its tests.
add_library(tutti_explain_parts STATIC explain_candidates.cpp algo_names.cpp algo_export.cpp)
target_link_libraries(tutti_explain_parts PUBLIC tutti_sim_parts tutti_src_cost tutti_src_exec
  tutti_src_exchange)
tutti_program(tutti-explain SOURCES explain.cpp LINKS tutti_explain_parts tutti_src_comm)

if(TUTTI_TESTS)
  tutti_test(sim_tool_test SECONDS 300 SOURCES sim_test.cpp LINKS tutti_sim_parts)
  target_compile_definitions(sim_tool_test PRIVATE TUTTI_SIM_PROGRAM="$<TARGET_FILE:tutti-sim>")
  add_dependencies(sim_tool_test tutti-sim)
  tutti_test(explain_tool_test SOURCES explain_test.cpp LINKS tutti_explain_parts)
  target_compile_definitions(explain_tool_test PRIVATE
    TUTTI_EXPLAIN_PROGRAM="$<TARGET_FILE:tutti-explain>")
  add_dependencies(explain_tool_test tutti-explain)
endif()
