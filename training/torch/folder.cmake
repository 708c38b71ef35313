# The adapter for LibTorch: nothing else is linked with it.
target_link_libraries(tutti_training_torch PUBLIC torch)
set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON)  # its flags differ from those of other tests
