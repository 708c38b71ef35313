# XML is parsed by the static pugixml: nothing to find at run time.
if(TARGET tutti_src_exchange)
  target_link_libraries(tutti_src_exchange PRIVATE ${PUGIXML_STATIC} nlohmann_json::nlohmann_json)
  target_include_directories(tutti_src_exchange SYSTEM PRIVATE ${PUGIXML_INCLUDE})
endif()
