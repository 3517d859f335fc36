# The one list of schemes and what computes each: octet_scheme(<scheme> <header> <C++ expression>). A fused scheme's expression is the
# template of numerics/ that meets the contract; a tiny TU is generated for each, so that they compile in parallel and apart.
#   fused: one pass over key blocks (numerics/contract.h); row: needs whole rows of scores (ref/row_softmax.h)
set(OCTET_INSTANCES
  "f32        fused  numerics/f32.h       F32Scheme"
  "f16        fused  numerics/f16.h       F16Scheme"
  "bf16       fused  numerics/f16.h       Bf16Scheme"
  "fp8        fused  numerics/fp8.h       Fp8Scheme"
  "fp8_hybrid fused  numerics/fp8.h       Fp8HybridScheme"
  "int8_full  fused  numerics/int8_full.h Int8FullScheme"
  "int8_half  fused  numerics/int8_full.h Int8HalfScheme"
  "int8       fused  numerics/int8.h      Int8Scheme"
  "int8_shift fused  numerics/int8.h      Int8ShiftScheme"
  "int8_fp8   fused  numerics/int8_fp8.h  Int8Fp8Scheme"
  "int8_lut   fused  numerics/int8_lut.h  Int8LutScheme"
  "int4       fused  numerics/int4.h      Int4Scheme"
  "qflash     fused  numerics/qflash.h    QFlashScheme"
  "qattn      fused  numerics/qattn.h     QAttnScheme"
  "standard   row    numerics/standard.h  StandardScheme"
  "ivit       row    numerics/ivit.h      IVitScheme"
  "ibert      row    numerics/ibert.h     IBertScheme"
  "fqvit      row    numerics/fqvit.h     FqVitScheme"
  "integer    fused  numerics/integer.h   IntegerScheme"
)

# A row of the list as _scheme, _kind, _header and _template of the caller.
macro(octet_split_instance row)
  string(REGEX REPLACE " +" ";" _fields "${row}")
  list(GET _fields 0 _scheme)
  list(GET _fields 1 _kind)
  list(GET _fields 2 _header)
  list(GET _fields 3 _template)
endmacro()

# Writes src/ref/<scheme>.cpp for each and the table attend_of() into the build tree; appends their paths to OCTET_GENERATED.
function(octet_generate_reference out_var)
  set(_generated)
  set(_declarations "")
  set(_cases "")
  foreach(_row IN LISTS OCTET_INSTANCES)
    octet_split_instance("${_row}")
    set(_file "${CMAKE_CURRENT_BINARY_DIR}/ref/${_scheme}.cpp")
    if(_kind STREQUAL "fused")
      set(_loop "attend.h")
      set(_call "attend_with")
    else()
      set(_loop "row_softmax.h")
      set(_call "attend_rows_with")
    endif()
    file(CONFIGURE OUTPUT "${_file}" CONTENT
"// Generated from cmake/instances.cmake: scheme ${_scheme} on the reference backend.
#include \"${_header}\"
#include \"ref/${_loop}\"
namespace octet::ref {
template <class L> using Chosen_${_scheme} = ${_template}<L>;
void attend_${_scheme}(const Problem& problem) { ${_call}<Chosen_${_scheme}>(problem); }
}
" @ONLY)
    list(APPEND _generated "${_file}")
    string(APPEND _declarations "void attend_${_scheme}(const Problem&);\n")
    string(APPEND _cases "    case Scheme::${_scheme}: return attend_${_scheme};\n")
  endforeach()
  set(_table "${CMAKE_CURRENT_BINARY_DIR}/ref/schemes.cpp")
  file(CONFIGURE OUTPUT "${_table}" CONTENT
"// Generated from cmake/instances.cmake: which function computes a scheme on the reference backend.
#include \"ref/schemes.h\"
namespace octet::ref {
${_declarations}
Attend attend_of(Scheme scheme) {
  switch (scheme) {
    case Scheme::exact: return attend_exact;
${_cases}    default: return nullptr;
  }
}
}
" @ONLY)
  list(APPEND _generated "${_table}")
  set(${out_var} "${_generated}" PARENT_SCOPE)
endfunction()

# Writes a header that includes every fused scheme and names them in OCTET_FUSED_SCHEMES, a list of OCTET_FUSED_SCHEME(scheme, Template).
function(octet_write_fused_schemes file)
  set(_includes "")
  set(_rows "")
  foreach(_row IN LISTS OCTET_INSTANCES)
    octet_split_instance("${_row}")
    if(_kind STREQUAL "fused")
      string(APPEND _includes "#include \"${_header}\"\n")
      string(APPEND _rows " \\\n  OCTET_FUSED_SCHEME(${_scheme}, ${_template})")
    endif()
  endforeach()
  file(CONFIGURE OUTPUT "${file}" CONTENT
"// Generated from cmake/instances.cmake: the schemes that one pass over key blocks computes.
#pragma once
${_includes}#define OCTET_FUSED_SCHEMES${_rows}
" @ONLY)
endfunction()

# The CPU backend's instruction sets: <name> <folder of isa.inl> <flags>. All fused schemes are one TU a set, with these flags. A set whose
# folder is "shared" has another's nests (cpu/avx2/vnni_nests.cpp), and flags for its products alone.
# With gcc they are those of -O3 that make nests faster: -O2 alone took 3 to 10 % longer to run f32, fp8 and int8_full, and all of -O3 takes a
# fifth longer to compile for the same speed.
# note: gcc 12 takes the undefined operand of its own AVX-512 intrinsics for an uninitialised variable.
set(_optimised "-O2 $<$<CXX_COMPILER_ID:GNU>:-fpeel-loops> $<$<CXX_COMPILER_ID:GNU>:-funswitch-loops> $<$<CXX_COMPILER_ID:GNU>:-fsplit-loops>")
set(OCTET_CPU_SETS
  "amx_int8    amx    ${_optimised} -mamx-tile -mamx-int8 -mamx-bf16 -mavx512bf16 -mavx512fp16 -mavx512vbmi -mavx2 -mfma -mprfchw -mavx512f -mavx512bw -mavx512cd -mavx512dq -mavx512vl -mavx512vnni -mprefer-vector-width=512 -mtune=skylake-avx512 $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized> $<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized>"
  "avx512_fp16 avx512_fp16 ${_optimised} -mavx512fp16 -mavx512vbmi -mavx2 -mfma -mprfchw -mavx512f -mavx512bw -mavx512cd -mavx512dq -mavx512vl -mavx512vnni -mprefer-vector-width=512 -mtune=skylake-avx512 $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized> $<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized>"
  "avx512_bf16 avx512_bf16 ${_optimised} -mavx512bf16 -mavx2 -mfma -mprfchw -mavx512f -mavx512bw -mavx512cd -mavx512dq -mavx512vl -mavx512vnni -mprefer-vector-width=512 -mtune=skylake-avx512 $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized> $<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized>"
  "avx512_vnni avx512 ${_optimised} -mavx2 -mfma -mprfchw -mavx512f -mavx512bw -mavx512cd -mavx512dq -mavx512vl -mavx512vnni -mprefer-vector-width=512 -mtune=skylake-avx512 $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized> $<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized>"
  "avx_vnni    shared ${_optimised} -mavx2 -mfma -mprfchw -mf16c -mavxvnni"
  "avx2        avx2   ${_optimised} -mavx2 -mfma -mprfchw -mf16c"
)

# Writes src/cpu/<set>.cpp, which holds the nests of a set and their table <set>_nest(), into the build tree; their paths go to out_var.
function(octet_generate_nests out_var)
  set(_generated)
  foreach(_set_row IN LISTS OCTET_CPU_SETS)
    string(REGEX REPLACE " +" ";" _set_fields "${_set_row}")
    list(POP_FRONT _set_fields _set _folder)
    if(_folder STREQUAL "shared")
      continue()
    endif()
    set(_includes "")
    set(_schemes "")
    set(_cases "")
    foreach(_row IN LISTS OCTET_INSTANCES)
      octet_split_instance("${_row}")
      if(NOT _kind STREQUAL "fused")
        continue()
      endif()
      string(APPEND _includes "#include \"${_header}\"\n")
      string(APPEND _schemes "template <class L> using Chosen_${_scheme} = ${_template}<L>;\n")
      string(APPEND _cases "    case Scheme::${_scheme}: return nest_for<Chosen_${_scheme}, ThisIsa>();\n")
    endforeach()
    set(_file "${CMAKE_CURRENT_BINARY_DIR}/cpu/${_set}.cpp")
    file(CONFIGURE OUTPUT "${_file}" CONTENT
"// Generated from cmake/instances.cmake: the nests of ${_set}.
#include \"cpu/nests.h\"
#include \"cpu/${_folder}/isa.inl\"
${_includes}namespace octet::cpu {
namespace {
${_schemes}}
const Nest* ${_set}_nest(Scheme scheme) {
  switch (scheme) {
${_cases}    default: return nullptr;
  }
}
}
" @ONLY)
    set_source_files_properties("${_file}" PROPERTIES COMPILE_OPTIONS "${_set_fields}")
    list(APPEND _generated "${_file}")
  endforeach()
  set(${out_var} "${_generated}" PARENT_SCOPE)
endfunction()

# The flags of a set, for the hand-written TUs that belong to it.
function(octet_set_flags set)
  foreach(_set_row IN LISTS OCTET_CPU_SETS)
    string(REGEX REPLACE " +" ";" _set_fields "${_set_row}")
    list(POP_FRONT _set_fields _set _folder)
    if(_set STREQUAL set)
      set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS "${_set_fields}")
    endif()
  endforeach()
endfunction()
