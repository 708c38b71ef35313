# cmake -DHEADER=FILE -DTRAILER=FILE "-DSOURCES=FILE;..." -P device_hash.cmake: writes a hash of the device
# code's sources, as a header for the library and as the end of the file of device code. Files that do not
# change keep their time, so that nothing is compiled again.
set(hashes "")
foreach(source ${SOURCES})
  file(SHA256 ${source} hash)
  string(APPEND hashes ${hash})
endforeach()
string(SHA256 hash "${hashes}")
file(CONFIGURE OUTPUT ${HEADER} CONTENT "#define TUTTI_DEVICE_SOURCES \"${hash}\"\n" @ONLY)
file(CONFIGURE OUTPUT ${TRAILER} CONTENT "TUTTI DEVICE 01 ${hash}" @ONLY)
