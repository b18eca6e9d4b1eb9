# How everything here is compiled: warnings, sanitizers, the compiler cache.

find_program(CCACHE ccache)
if(CCACHE)
  # Without this sloppiness a precompiled header is never found in the cache.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
endif()

include_directories(${CMAKE_SOURCE_DIR})
add_compile_options(-Wall -Wextra -Werror -Wshadow -Wnon-virtual-dtor)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # GCC 12 warns of overlap inside std::string's operator+ and of bounds inside
  # its append; GCC 13 of reads beyond short strings, and of references into an
  # argument that outlives the call.
  add_compile_options(-Wno-restrict -Wno-array-bounds -Wno-stringop-overread
                      -Wno-stringop-overflow)
  if(CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
    add_compile_options(-Wno-dangling-reference)
  endif()
  # Sanitizers keep GCC from seeing initialisations.
  add_compile_options($<$<CONFIG:Sanitize>:-Wno-maybe-uninitialized>)
  # GCC collects garbage less often.
  add_compile_options(--param=ggc-min-heapsize=262144)
endif()

if(PIPEWRIGHT_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined
                      -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
endif()
if(PIPEWRIGHT_SANITIZE)
  add_compile_options(-fsanitize=${PIPEWRIGHT_SANITIZE} -fno-omit-frame-pointer
                      -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${PIPEWRIGHT_SANITIZE})
endif()
