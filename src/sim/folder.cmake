# See src/cost/folder.cmake.
target_compile_options(tutti_src_sim PRIVATE -ffp-contract=off)
