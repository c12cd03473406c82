# kvcull-config-version.cmake - which versions this one may stand for: before 1.0 those of the same first two numbers,
# then those of the same first number, if it is not older.
set(PACKAGE_VERSION "0.1.0")
set(PACKAGE_VERSION_COMPATIBLE FALSE)
set(PACKAGE_VERSION_EXACT FALSE)
if(PACKAGE_VERSION VERSION_EQUAL PACKAGE_FIND_VERSION)
    set(PACKAGE_VERSION_EXACT TRUE)
endif()
string(REGEX MATCH "^(0\\.)?[0-9]+" kvcull_own "${PACKAGE_VERSION}")
string(REGEX MATCH "^(0\\.)?[0-9]+" kvcull_wanted "${PACKAGE_FIND_VERSION}")
if(NOT PACKAGE_VERSION VERSION_LESS PACKAGE_FIND_VERSION AND
   (PACKAGE_FIND_VERSION STREQUAL "" OR kvcull_own STREQUAL kvcull_wanted OR PACKAGE_FIND_VERSION STREQUAL "0"))
    set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
