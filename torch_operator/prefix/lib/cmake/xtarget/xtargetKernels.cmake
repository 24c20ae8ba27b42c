# xtarget_add_kernels(NAME TARGETS <target>... [KERNELS <kernel>...] [DTYPES <dtype>...]
#                     [LIBRARIES <folder>...] [OPTIONS <option>...] [C_FUNCTIONS cuda|hip])
#
# Build kernels with the project, by `xtarget bundle build`: for `TARGETS` (nvidia:sm_90, amd:gfx942,
# cpu, ...) those named, else all of `LIBRARIES` (folders with kernels of the project's own), else the
# whole catalog; float32, or the dtypes named. `OPTIONS` go to the command as they are (--full, --views,
# --sign FILE). What has not changed comes from xtarget's cache.
#
# Without C_FUNCTIONS the target NAME makes NAME.xtb in the binary folder; its property XTARGET_BUNDLE
# has the path, for a definition, an install or a copy. With C_FUNCTIONS, NAME is a static library of
# C functions with the binaries inside (`xtarget bundle emit-c`; header xtarget_kernels.h): a program
# that links it needs no file and no libxtarget.
#
# The command `xtarget` compiles: pip install "xtarget[compile]". XTARGET_EXECUTABLE names another one,
# for example that of a virtual environment with another Python. The program needs neither.
function(xtarget_add_kernels NAME)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "C_FUNCTIONS" "TARGETS;KERNELS;DTYPES;LIBRARIES;OPTIONS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "xtarget_add_kernels(${NAME}): what is ${arg_UNPARSED_ARGUMENTS}? It takes "
      "TARGETS, KERNELS, DTYPES, LIBRARIES, OPTIONS and C_FUNCTIONS.")
  endif()
  if(NOT arg_TARGETS)
    message(FATAL_ERROR "xtarget_add_kernels(${NAME}) needs TARGETS, for example nvidia:sm_90 or cpu.")
  endif()
  if(arg_C_FUNCTIONS AND NOT arg_C_FUNCTIONS MATCHES "^(cuda|hip)$")
    message(FATAL_ERROR "xtarget_add_kernels(${NAME}): C_FUNCTIONS is ${arg_C_FUNCTIONS}; there are "
      "functions for cuda and hip. Leave it out, and call the bundle by libxtarget.")
  endif()
  find_program(XTARGET_EXECUTABLE xtarget DOC "The command that compiles kernels")
  if(NOT XTARGET_EXECUTABLE)
    message(FATAL_ERROR "xtarget_add_kernels(${NAME}) needs the command xtarget, which compiles: "
      "pip install \"xtarget[compile]\", or give -DXTARGET_EXECUTABLE=/path/to/xtarget.")
  endif()

  set(words ${arg_OPTIONS})
  foreach(name TARGETS KERNELS DTYPES)
    string(TOLOWER ${name} option)
    string(REGEX REPLACE "s$" "" option ${option})
    foreach(value IN LISTS arg_${name})
      list(APPEND words --${option} ${value})
    endforeach()
  endforeach()
  set(sources)
  set(libraries)
  foreach(folder IN LISTS arg_LIBRARIES)
    get_filename_component(folder "${folder}" ABSOLUTE)
    file(GLOB_RECURSE found CONFIGURE_DEPENDS "${folder}/*.py" "${folder}/*.json")
    list(APPEND sources ${found})
    list(APPEND libraries --library "${folder}")
  endforeach()

  set(bundle "${CMAKE_CURRENT_BINARY_DIR}/${NAME}.xtb")
  add_custom_command(
    OUTPUT "${bundle}"
    COMMAND "${XTARGET_EXECUTABLE}" bundle build -o "${bundle}" ${libraries} ${words}
    DEPENDS ${sources}
    COMMENT "Compiling kernels into ${NAME}.xtb"
    VERBATIM)
  if(arg_C_FUNCTIONS)
    set(folder "${CMAKE_CURRENT_BINARY_DIR}/${NAME}")
    add_custom_command(
      OUTPUT "${folder}/xtarget_kernels.c" "${folder}/xtarget_kernels.h"
      COMMAND "${XTARGET_EXECUTABLE}" bundle emit-c "${bundle}" -o "${folder}"
              --driver ${arg_C_FUNCTIONS} ${libraries}
      DEPENDS "${bundle}"
      COMMENT "Writing C functions of ${NAME}.xtb"
      VERBATIM)
    find_package(Threads REQUIRED)
    add_library(${NAME} STATIC "${folder}/xtarget_kernels.c" "${folder}/xtarget_kernels.h")
    set_target_properties(${NAME} PROPERTIES C_STANDARD 11 POSITION_INDEPENDENT_CODE ON)
    target_include_directories(${NAME} PUBLIC "${folder}")
    target_link_libraries(${NAME} PUBLIC Threads::Threads ${CMAKE_DL_LIBS})
  else()
    add_custom_target(${NAME} ALL DEPENDS "${bundle}")
  endif()
  set_target_properties(${NAME} PROPERTIES XTARGET_BUNDLE "${bundle}")
endfunction()
