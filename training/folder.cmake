# The layer is a user of the library like any other. Its results are to be the same for every way to
# cut parameters, so no compiler may round a product and a sum at once here and not there.
target_link_libraries(tutti_training PUBLIC tutti::tutti PRIVATE nlohmann_json::nlohmann_json)
target_compile_options(tutti_training PRIVATE -ffp-contract=off
  -fno-math-errno -fno-trapping-math)  # square roots side by side, the same bits
