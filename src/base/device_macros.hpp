// Lets one source serve the GPU and the host: nvcc compiles every function here for both.
#pragma once

#if defined(__CUDACC__)
#define TUTTI_DEVICE __host__ __device__
#define TUTTI_UNROLL _Pragma("unroll")
#define TUTTI_UNROLL_SOURCES _Pragma("unroll kAtOnce")
#else
#define TUTTI_DEVICE
#define TUTTI_UNROLL
#define TUTTI_UNROLL_SOURCES
#endif
