# Contracting a * b + c into one rounding would make results depend on the processor. Floating-point
# traps are not used, and assuming them keeps compilers from vectorising selections.
target_compile_options(tutti_src_codec PRIVATE -ffp-contract=off -fno-trapping-math -O3)
