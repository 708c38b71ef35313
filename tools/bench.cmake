# tutti-bench, its nccl-tests names, and the tests of its pure parts.

add_library(tutti_bench_parts STATIC
  bench_data.cpp bench_json.cpp bench_launch.cpp bench_numbers.cpp bench_options.cpp
  bench_report.cpp bench_shape.cpp bench_sizes.cpp bench_stats.cpp)
target_include_directories(tutti_bench_parts PUBLIC ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/include)
target_compile_definitions(tutti_bench_parts PUBLIC TUTTI_BENCH_VERSION="${PROJECT_VERSION}")
target_link_libraries(tutti_bench_parts PUBLIC tutti_tools fmt::fmt-header-only
  nlohmann_json::nlohmann_json CLI11::CLI11 Threads::Threads)

if(TUTTI_TESTS)
  tutti_test(bench_test SOURCES bench_test.cpp bench_data_test.cpp bench_launch_test.cpp
    LINKS tutti_bench_parts)
endif()
