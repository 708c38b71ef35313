set(test_needs mock_plugins)
set(test_definitions MOCK_PLUGINS="${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/mock_plugins")
