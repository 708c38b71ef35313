# The switch's own part is not linked into the library.
set_source_files_properties(${CMAKE_SOURCE_DIR}/transports/switch/server.cpp
                            ${CMAKE_SOURCE_DIR}/transports/switch/server_data.cpp PROPERTIES
                            SKIP_UNITY_BUILD_INCLUSION ON)
