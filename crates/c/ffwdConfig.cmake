# The targets ffwd::ffwd (the shared library) and ffwd::static.
get_filename_component(_ffwd_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
find_package(Threads REQUIRED)

if(NOT TARGET ffwd::static)
  add_library(ffwd::static STATIC IMPORTED)
  set_target_properties(ffwd::static PROPERTIES
    IMPORTED_LOCATION "${_ffwd_prefix}/lib/libffwd_engine.a"
    INTERFACE_INCLUDE_DIRECTORIES "${_ffwd_prefix}/include"
    INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS};m")
endif()
if(NOT TARGET ffwd::ffwd)
  add_library(ffwd::ffwd SHARED IMPORTED)
  set_target_properties(ffwd::ffwd PROPERTIES
    IMPORTED_LOCATION "${_ffwd_prefix}/lib/libffwd_engine.so.0"
    INTERFACE_INCLUDE_DIRECTORIES "${_ffwd_prefix}/include")
endif()
