# The packets' MAC comes from the static libsodium, as the handshake's cryptography does.
if(TARGET tutti_src_switch)
  get_target_property(switch_type tutti_src_switch TYPE)
  if(NOT switch_type STREQUAL "INTERFACE_LIBRARY")
    target_link_libraries(tutti_src_switch PUBLIC ${SODIUM_STATIC})
  endif()
endif()
