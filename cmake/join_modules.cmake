# Run by web_page.cmake at build time: STYLE and MODULES become OUTPUT.
cmake_minimum_required(VERSION 3.22)
file(READ ${STYLE} style)
set(script "")
foreach(module ${MODULES})
  file(READ ${module} text)
  string(REGEX REPLACE "(^|\n)import [^\n]*from '[^'\n]*'[^\n]" "\\1" text "${text}")
  string(REGEX REPLACE "(^|\n)export " "\\1" text "${text}")
  string(APPEND script "${text}")
endforeach()

# A string literal has a limit of 64 KiB in the standard: pieces of 8,000.
function(literal text variable)
  string(LENGTH "${text}" length)
  set(literals "")
  set(at 0)
  while(at LESS length)
    string(SUBSTRING "${text}" ${at} 8000 piece)
    string(APPEND literals "R\"~~~(${piece})~~~\"\n")
    math(EXPR at "${at} + 8000")
  endwhile()
  set(${variable} "${literals}" PARENT_SCOPE)
endfunction()
literal("${style}" style_literal)
literal("${script}" script_literal)
file(WRITE ${OUTPUT} "// Written by cmake/join_modules.cmake from web/.
#include \"pipewright/report/page.h\"
namespace pipewright {
const std::string_view kPageStyle =
${style_literal};
const std::string_view kPageScript =
${script_literal};
}  // namespace pipewright
")
