target_link_libraries(tutti_src_cost PRIVATE nlohmann_json::nlohmann_json)
# Ranks on machines of different kinds come to the same predictions: no product is fused with a sum.
target_compile_options(tutti_src_cost PRIVATE -ffp-contract=off)
