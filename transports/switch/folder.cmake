# The switch's own part is not linked into the library.
foreach(file server.cpp server_sessions.cpp data_port.cpp way_up.cpp)
  set_source_files_properties(${CMAKE_SOURCE_DIR}/transports/switch/${file} PROPERTIES
                              SKIP_UNITY_BUILD_INCLUSION ON)
endforeach()
