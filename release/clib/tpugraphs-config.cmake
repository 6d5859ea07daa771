# find_package(tpugraphs): the targets tpugraphs::tpugraphs (shared) and tpugraphs::static.
get_filename_component(_tpugraphs_lib "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
if(NOT TARGET tpugraphs::tpugraphs)
  add_library(tpugraphs::tpugraphs SHARED IMPORTED)
  set_target_properties(tpugraphs::tpugraphs PROPERTIES
    IMPORTED_LOCATION "${_tpugraphs_lib}/libtpugraphs.so.@ABI@"
    IMPORTED_SONAME "libtpugraphs.so.@ABI@"
    INTERFACE_INCLUDE_DIRECTORIES "@PREFIX@/include")
  add_library(tpugraphs::static STATIC IMPORTED)
  set_target_properties(tpugraphs::static PROPERTIES
    IMPORTED_LOCATION "${_tpugraphs_lib}/libtpugraphs.a"
    INTERFACE_INCLUDE_DIRECTORIES "@PREFIX@/include"
    INTERFACE_LINK_LIBRARIES "@LINKS@")
endif()
unset(_tpugraphs_lib)
