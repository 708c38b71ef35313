# Its tests run on the driver in memory.
set(test_definitions FAKE_CUDA="$<TARGET_FILE:fake_cuda>" FAKE_CUDA_OLD="$<TARGET_FILE:fake_cuda_old>")
