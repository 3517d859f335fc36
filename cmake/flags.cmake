# Flags of every target of ours. Warnings are errors; no contraction, so that a*b+c means the same on every compiler;
# no errno and no trapping, which change no value and without which gcc does not vectorise comparisons of floats.
set(OCTET_WERROR -Werror)
if(SKBUILD)  # pip install: a user's compiler may know warnings that ours do not
  set(OCTET_WERROR)
endif()
add_library(octet_flags INTERFACE)
target_compile_options(octet_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wcast-qual -Wnon-virtual-dtor -Woverloaded-virtual -Wvla -Wunknown-pragmas
  ${OCTET_WERROR} -ffp-contract=off -fno-math-errno -fno-trapping-math)
# note: g++ 12 sees overlaps in "text" + std::string that are not there (GCC bug 105651).
target_compile_options(octet_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
# Vectors that no register of the instruction set holds are passed in ways that depend on it; ours are only passed to functions that are
# always inlined.
target_compile_options(octet_flags INTERFACE -Wno-psabi)
target_include_directories(octet_flags INTERFACE
  ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
find_package(Threads REQUIRED)
target_link_libraries(octet_flags INTERFACE Threads::Threads)

# A precompiled header is of one set of instructions: sources of a target that have another read the headers themselves.
function(octet_own_headers target)
  get_target_property(_sources ${target} SOURCES)
  foreach(_source IN LISTS _sources)
    get_source_file_property(_options ${_source} COMPILE_OPTIONS)
    if(_options MATCHES "-m")
      set_source_files_properties(${_source} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
    endif()
  endforeach()
endfunction()

# Sanitizers come as one list from the presets: "address;undefined", "thread".
set(OCTET_SANITIZE "" CACHE STRING "Sanitizers for every target, as a list")
if(OCTET_SANITIZE)
  list(JOIN OCTET_SANITIZE "," _sanitizers)
  target_compile_options(octet_flags INTERFACE -fsanitize=${_sanitizers} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(octet_flags INTERFACE -fsanitize=${_sanitizers})
endif()

# For targets of many small sources that share their headers; what they name at file scope must differ.
function(octet_unity target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${OCTET_UNITY} UNITY_BUILD_BATCH_SIZE 8)
endfunction()
