# find_package(xtarget): the target xtarget::xtarget, for C and C++17, and xtarget_add_kernels. It is
# found by its place, so the folder may be moved.
get_filename_component(_xtarget_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET xtarget::xtarget)
  add_library(xtarget::xtarget SHARED IMPORTED)
  set_target_properties(xtarget::xtarget PROPERTIES
    IMPORTED_LOCATION "${_xtarget_prefix}/lib/libxtarget.so"
    INTERFACE_INCLUDE_DIRECTORIES "${_xtarget_prefix}/include")
endif()
unset(_xtarget_prefix)
include("${CMAKE_CURRENT_LIST_DIR}/xtargetKernels.cmake")
