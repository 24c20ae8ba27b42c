# A later version serves programs that ask for an earlier one of the same first number.
set(PACKAGE_VERSION "0.1.0")
string(REGEX REPLACE "[.].*" "" _xtarget_first "${PACKAGE_VERSION}")
if(PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION
   OR NOT "${PACKAGE_FIND_VERSION_MAJOR}" MATCHES "^(${_xtarget_first})?$")
  set(PACKAGE_VERSION_COMPATIBLE FALSE)
else()
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
  if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
    set(PACKAGE_VERSION_EXACT TRUE)
  endif()
endif()
unset(_xtarget_first)
