# Finds zstd, which packs the linked cubins when the library is built and unpacks them when they are
# loaded. Sets
#   zstd                   what to link
#   ATTNPRESS_ZSTD_STATIC  whether that is an archive that a shared library can hold
# An archive is taken where there is one: the library then needs no zstd where it is used.
find_path(ZSTD_INCLUDE_DIR zstd.h HINTS ${compiler_include_path})
find_library(ZSTD_ARCHIVE libzstd.a HINTS ${compiler_library_path})
find_library(ZSTD_LIBRARY zstd HINTS ${compiler_library_path})
mark_as_advanced(ZSTD_INCLUDE_DIR ZSTD_ARCHIVE ZSTD_LIBRARY)
if(NOT ZSTD_INCLUDE_DIR OR NOT (ZSTD_ARCHIVE OR ZSTD_LIBRARY))
  message(FATAL_ERROR "zstd was not found (zstd.h and libzstd), which packs the kernels that are "
                      "linked in: install libzstd-dev (Debian, Ubuntu) or libzstd-devel and "
                      "libzstd-static (Fedora), set CMAKE_PREFIX_PATH to its prefix, or link no "
                      "kernels in with -DATTNPRESS_PREBUILT=OFF")
endif()

# Archives are position independent on Debian, Ubuntu and Fedora, but need not be.
set(zstd_probe "${PROJECT_BINARY_DIR}/CMakeFiles/zstd_probe.c")
file(WRITE "${zstd_probe}" "#include <zstd.h>
size_t probe(void *a, size_t b, const void *c, size_t d);
size_t probe(void *a, size_t b, const void *c, size_t d) { return ZSTD_decompress(a, b, c, d); }
")
if(ZSTD_ARCHIVE AND CMAKE_OBJCOPY AND NOT DEFINED ATTNPRESS_ZSTD_STATIC)
  try_compile(ATTNPRESS_ZSTD_STATIC "${PROJECT_BINARY_DIR}" "${zstd_probe}"
    CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${ZSTD_INCLUDE_DIR}"
    COMPILE_DEFINITIONS -fPIC
    LINK_OPTIONS -shared
    LINK_LIBRARIES "${ZSTD_ARCHIVE}"
    OUTPUT_VARIABLE zstd_probe_output)
endif()
if(ATTNPRESS_ZSTD_STATIC)
  set(zstd "${ZSTD_ARCHIVE}")
elseif(ZSTD_LIBRARY)
  set(zstd "${ZSTD_LIBRARY}")
  message(STATUS "zstd is linked as a shared library: no archive of it can be part of one")
else()
  message(FATAL_ERROR "${ZSTD_ARCHIVE} is not position independent, so that no shared library can "
                      "hold it, and there is no shared zstd: install libzstd-dev (Debian, Ubuntu) "
                      "or libzstd-devel (Fedora)\n${zstd_probe_output}")
endif()
