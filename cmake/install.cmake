# cmake --install: a relocatable tree.
#
#   include/tutti/                      tutti.h, nccl.h under Tutti's name, the C++ headers
#   lib/libtutti.so*                    find_package(tutti) -> tutti::tutti, pkg-config tutti
#   lib/tutti/nccl-compat/              a prefix of its own with NCCL's names: include/nccl.h,
#                                       lib/libnccl.so.2, find_package(NCCL) -> NCCL::nccl,
#                                       pkg-config nccl. On no default path, so that an installed
#                                       NCCL is never shadowed by accident; name it to use it
#                                       (CMAKE_PREFIX_PATH, NCCL_HOME, LD_LIBRARY_PATH).
include(CMakePackageConfigHelpers)

set(tutti_compat ${CMAKE_INSTALL_LIBDIR}/tutti/nccl-compat)
set(tutti_generated ${CMAKE_BINARY_DIR}/packaging)
set(tutti_packages ${CMAKE_INSTALL_LIBDIR}/cmake/tutti)

install(TARGETS tutti_library EXPORT tuttiTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library)
install(FILES ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/libtutti_device.fatbin DESTINATION ${CMAKE_INSTALL_LIBDIR}
  COMPONENT library OPTIONAL)  # where nvcc made one
install(EXPORT tuttiTargets NAMESPACE tutti:: DESTINATION ${tutti_packages} COMPONENT library)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/tutti DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library
  PATTERN nccl.h EXCLUDE)
install(FILES ${CMAKE_SOURCE_DIR}/include/nccl.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tutti COMPONENT library)

install(TARGETS tutti_nccl EXPORT NCCLTargets LIBRARY DESTINATION ${tutti_compat}/lib COMPONENT nccl-compat)
install(EXPORT NCCLTargets NAMESPACE NCCL:: DESTINATION ${tutti_compat}/lib/cmake/NCCL COMPONENT nccl-compat)
install(FILES ${CMAKE_SOURCE_DIR}/include/nccl.h DESTINATION ${tutti_compat}/include COMPONENT nccl-compat)

file(WRITE ${tutti_generated}/tuttiConfig.cmake "include(\${CMAKE_CURRENT_LIST_DIR}/tuttiTargets.cmake)\n")
file(WRITE ${tutti_generated}/NCCLConfig.cmake "include(\${CMAKE_CURRENT_LIST_DIR}/NCCLTargets.cmake)\n")
write_basic_package_version_file(${tutti_generated}/tuttiConfigVersion.cmake
  VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
write_basic_package_version_file(${tutti_generated}/NCCLConfigVersion.cmake
  VERSION 2.28.9 COMPATIBILITY SameMajorVersion)

# pkg-config finds the prefix from where the .pc file lies: so many folders up.
function(tutti_pc name description version pc_folder prefix_folder include_folder lib_folder)
  file(RELATIVE_PATH up /${pc_folder} /${prefix_folder})
  string(REGEX REPLACE "/$" "" up "${up}")
  file(WRITE ${tutti_generated}/${name}.pc
    "prefix=\${pcfiledir}/${up}\n"
    "Name: ${name}\nDescription: ${description}\nVersion: ${version}\n"
    "Cflags: -I\${prefix}/${include_folder}\nLibs: -L\${prefix}/${lib_folder} -l${name}\n")
endfunction()
tutti_pc(tutti "Collective communication through NCCL's API" ${PROJECT_VERSION}
  ${CMAKE_INSTALL_LIBDIR}/pkgconfig "" ${CMAKE_INSTALL_INCLUDEDIR} ${CMAKE_INSTALL_LIBDIR})
tutti_pc(nccl "NCCL's names over Tutti" 2.28.9 ${tutti_compat}/lib/pkgconfig ${tutti_compat} include lib)

install(FILES ${tutti_generated}/tuttiConfig.cmake ${tutti_generated}/tuttiConfigVersion.cmake
  DESTINATION ${tutti_packages} COMPONENT library)
install(FILES ${tutti_generated}/tutti.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library)
install(FILES ${tutti_generated}/NCCLConfig.cmake ${tutti_generated}/NCCLConfigVersion.cmake
  DESTINATION ${tutti_compat}/lib/cmake/NCCL COMPONENT nccl-compat)
install(FILES ${tutti_generated}/nccl.pc DESTINATION ${tutti_compat}/lib/pkgconfig COMPONENT nccl-compat)
