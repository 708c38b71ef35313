target_link_libraries(tutti_src_topo_format PRIVATE nlohmann_json::nlohmann_json)

# XML is read by the static pugixml: nothing to find at run time.
target_include_directories(tutti_src_topo_format SYSTEM PUBLIC ${PUGIXML_INCLUDE})
target_link_libraries(tutti_src_topo_format PUBLIC ${PUGIXML_STATIC})
