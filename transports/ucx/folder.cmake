target_link_libraries(tutti_transports_ucx PUBLIC ${CMAKE_DL_LIBS})
