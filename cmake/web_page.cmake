# The page of `report` and `serve`: the style sheet and the modules of web/
# become one text, page_text.cc, in the library pipewright_report. Neither Node
# nor any other tool is needed.
#
# A page that is opened from a file cannot import modules, so that they are
# joined into one: in the order below, without their `import` lines and without
# the word `export`. Names at the top of a module are unique among all of them.
set(web ${CMAKE_SOURCE_DIR}/web)
set(modules elements.js units.js palette.js panel.js summary.js timeline_data.js
    timeline_canvas.js timeline.js memory.js model.js cluster.js curves.js
    run.js compare.js plans.js ask.js problem.js serve.js
    runs.js main.js)
list(TRANSFORM modules PREPEND ${web}/)
set(page_text ${CMAKE_CURRENT_BINARY_DIR}/page_text.cc)
set(join_modules ${CMAKE_SOURCE_DIR}/cmake/join_modules.cmake)
add_custom_command(
  OUTPUT ${page_text} VERBATIM
  DEPENDS ${join_modules} ${web}/page.css ${modules}
  COMMAND ${CMAKE_COMMAND} "-DSTYLE=${web}/page.css" "-DMODULES=${modules}"
          -DOUTPUT=${page_text} -P ${join_modules})
target_sources(pipewright_report PRIVATE ${page_text})
