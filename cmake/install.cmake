# What `cmake --install` puts where: programs, libraries, headers, the package
# that find_package(Pipewright) finds, completion and man page.
include(CMakePackageConfigHelpers)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/Pipewright)

install(TARGETS ${PIPEWRIGHT_CORE_TARGETS} EXPORT core
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT core NAMESPACE Pipewright:: FILE PipewrightCore.cmake
        DESTINATION ${package})
install(DIRECTORY pipewright DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")
install(TARGETS pipewright)
if(PIPEWRIGHT_RUNTIME)
  install(TARGETS pipewright_runtime EXPORT runtime
          INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT runtime NAMESPACE Pipewright:: FILE PipewrightRuntime.cmake
          DESTINATION ${package})
  # Where pipewright looks for it (cli/no_runtime.cc). LibTorch stays where it
  # is, be that a virtual environment inside this folder: CMake's own
  # INSTALL_RPATH_USE_LINK_PATH leaves such folders out.
  install(TARGETS pipewright-runtime DESTINATION libexec/pipewright)
  get_filename_component(libtorch "${Torch_DIR}/../../../lib" ABSOLUTE)
  set_target_properties(pipewright-runtime PROPERTIES
                        INSTALL_RPATH "${libtorch}"
                        INSTALL_RPATH_USE_LINK_PATH TRUE)
endif()

configure_package_config_file(cmake/PipewrightConfig.cmake.in
                              ${CMAKE_BINARY_DIR}/PipewrightConfig.cmake
                              INSTALL_DESTINATION ${package})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/PipewrightConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/PipewrightConfig.cmake
              ${CMAKE_BINARY_DIR}/PipewrightConfigVersion.cmake
        DESTINATION ${package})

# pipewright_printed(FILE FOLDER ARGUMENT...): what the program prints with
# these arguments becomes FILE, installed into FOLDER.
set(printed_files)
function(pipewright_printed file folder)
  set(output ${CMAKE_BINARY_DIR}/manual/${file})
  add_custom_command(OUTPUT ${output} DEPENDS pipewright VERBATIM
                     COMMAND pipewright ${ARGN} > ${output})
  install(FILES ${output} DESTINATION ${folder})
  set(printed_files ${printed_files} ${output} PARENT_SCOPE)
endfunction()
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/manual/bash ${CMAKE_BINARY_DIR}/manual/zsh)
pipewright_printed(pipewright.1 ${CMAKE_INSTALL_MANDIR}/man1 man-page)
pipewright_printed(bash/pipewright ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
                   completion bash)
pipewright_printed(zsh/_pipewright ${CMAKE_INSTALL_DATADIR}/zsh/site-functions
                   completion zsh)
add_custom_target(manual ALL DEPENDS ${printed_files})

# All that is installed, and no tests.
add_custom_target(installed DEPENDS pipewright manual)
if(PIPEWRIGHT_RUNTIME)
  add_dependencies(installed pipewright-runtime)
endif()
