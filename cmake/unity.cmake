# pipewright_unity(TARGET): with CMAKE_UNITY_BUILD (the presets set it), the
# target's sources of one folder compile as one unit, in half the time. Which
# files share a unit depends on nothing else, so a new file can collide only
# with names in unnamed namespaces of its own folder, and its author sees it.
function(pipewright_unity target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cc$")
  foreach(source ${sources})
    get_filename_component(folder ${source} DIRECTORY)
    file(RELATIVE_PATH group ${CMAKE_SOURCE_DIR} ${folder})
    string(MAKE_C_IDENTIFIER "${group}" group)
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group})
  endforeach()
endfunction()
