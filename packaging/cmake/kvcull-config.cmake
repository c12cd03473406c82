# kvcull-config.cmake - find_package(kvcull) makes the target kvcull::kvcull of the library beside whose folder this file
# is installed: LIBDIR/cmake/kvcull. Headers are looked for where the same prefix has them.
get_filename_component(kvcull_libdir "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
find_library(kvcull_LIBRARY NAMES kvcull PATHS "${kvcull_libdir}" NO_DEFAULT_PATH)
find_path(kvcull_INCLUDE_DIR NAMES kvcull/policy.h
    PATHS "${kvcull_libdir}/../include" "${kvcull_libdir}/../../include" NO_DEFAULT_PATH)
mark_as_advanced(kvcull_LIBRARY kvcull_INCLUDE_DIR)
if(NOT kvcull_LIBRARY OR NOT kvcull_INCLUDE_DIR)
    set(kvcull_FOUND FALSE)
    set(kvcull_NOT_FOUND_MESSAGE "libkvcull or its headers are not beside ${CMAKE_CURRENT_LIST_DIR}")
    return()
endif()
if(NOT TARGET kvcull::kvcull)
    add_library(kvcull::kvcull UNKNOWN IMPORTED)
    set_target_properties(kvcull::kvcull PROPERTIES
        IMPORTED_LOCATION "${kvcull_LIBRARY}"
        INTERFACE_INCLUDE_DIRECTORIES "${kvcull_INCLUDE_DIR}")
endif()
unset(kvcull_libdir)
