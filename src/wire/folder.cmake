# The handshake's cryptography comes from the static libsodium: nothing to find at run time.
if(TARGET tutti_src_wire)
  get_target_property(wire_type tutti_src_wire TYPE)
  if(NOT wire_type STREQUAL "INTERFACE_LIBRARY")
    target_link_libraries(tutti_src_wire PUBLIC ${SODIUM_STATIC})
  endif()
endif()
