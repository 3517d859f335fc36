# The CUDA backend: its kernels are templates of a scheme and a tile, instantiated in units of one scheme or, with OCTET_UNITY, of several.

# sm_89 runs the code of sm_86, whose instructions are the same ones (docs/cuda-measurements.md), but for kernels that multiply e4m3 as it is: these are compiled
# for sm_89, and have PTX of it.
set(OCTET_CUDA_ARCHITECTURES "80-real;86-real;90-real;80-virtual" CACHE STRING
    "What the CUDA sources are compiled for; newer GPUs take the PTX")

# Schemes whose sources are one unit, for what one includes takes up to a third of its time: of what packs, of what attends by mma.sync, and of what
# attends by wgmma. Without OCTET_UNITY each has its own, which is less to compile after a change.
set(OCTET_CUDA_UNIT_OF_pack 18)
set(OCTET_CUDA_UNIT_OF_mma 3)
set(OCTET_CUDA_UNIT_OF_wgmma 5)

# Forms of schemes that only these kernels have, as rows of OCTET_INSTANCES: which calls take them says src/cuda/cuts.cu.
set(OCTET_CUDA_FORMS
  "int8_uniform fused numerics/uniform_u8.h UniformU8"
  "int8_late    fused numerics/late_u8.h    LateU8"
  "fp8_native        fused numerics/native_e4m3.h Fp8Native"
  "fp8_uniform       fused numerics/native_e4m3.h Fp8Uniform"
  "fp8_hybrid_native fused numerics/native_e4m3.h Fp8HybridNative"
  "int8_fp8_native   fused numerics/native_e4m3.h Int8Fp8Native"
)
# Those of them that Hopper's kernels alone have: mma's pack for these and do not attend.
set(OCTET_CUDA_HOPPER_ALONE int8_late)

# Schemes of e4m3, which have two kinds of kernels of mma.sync: that multiply it as it is, for sm_89 and newer, and as f16, for what is older.
set(OCTET_CUDA_E4M3 fp8 fp8_hybrid int8_fp8)

# Those with kernels for key blocks of up to 112 keys, beside those of 128: 197 keys of ViT are two such blocks. Not all, for the build's sake.
set(OCTET_CUDA_NARROW int8 int8_uniform int8_full int8_half integer qflash)

# Schemes and forms whose long calls have kernels of Hopper's own (src/cuda/wgmma), on GPUs of compute capability 9.0: none that adds a bias. Each
# with what it is there (numerics/unbiased.h, early.h, tracked.h), if not itself.
set(OCTET_CUDA_HOPPER int8=Early int8_uniform= int8_late= int8_full=LateScaled int8_half=Tracked f16=Unbiased
  bf16=Unbiased int8_shift=Unbiased int8_lut=Unbiased fp8_native=Unbiased fp8_uniform= fp8_hybrid_native=Tracked int8_fp8_native=LateScaled)

# A line of kernels_of() for a form, named <scheme>_<form>.
macro(octet_form_case list name)
  string(REGEX MATCH "^(.+)_([a-z]+)$" _ ${name})
  string(APPEND ${list} "  if (scheme == Scheme::${CMAKE_MATCH_1} && form == Form::${CMAKE_MATCH_2}) return &kKernels_${name};\n")
endmacro()

# Adds a scheme's text to the unit of that kind which is at hand: the caller's _units, and _schemes_of_<unit>, _includes_of_<unit>, _text_of_<unit>.
# integer and qflash have units of their own, whose code a test takes apart and whose floats are rounded as on the host.
macro(octet_add_to_unit kind text)
  set(_unit ${kind}_${_scheme})
  if(${kind} STREQUAL mma AND _scheme IN_LIST OCTET_CUDA_E4M3)
    set(_unit mma_e4m3_as_f16)
  elseif(${kind} STREQUAL mma AND _scheme MATCHES "_native$|^fp8_uniform$")
    set(_unit mma_e4m3)
  elseif(OCTET_UNITY AND "${kind}_${_scheme}" STREQUAL pack_qflash)
    set(_unit pack_integer)
  elseif(OCTET_UNITY AND NOT _scheme MATCHES "^(integer|qflash)$")
    if(NOT (${kind} STREQUAL mma AND _scheme IN_LIST OCTET_CUDA_HOPPER_ALONE))  # a table without kernels takes no place
      list(APPEND _shared_${kind} ${_scheme})
    endif()
    list(LENGTH _shared_${kind} _count)
    math(EXPR _count "(${_count} - 1) / ${OCTET_CUDA_UNIT_OF_${kind}}")
    set(_unit ${kind}_${_count})
  endif()
  if(NOT _unit IN_LIST _units)
    list(APPEND _units ${_unit})
  endif()
  list(APPEND _schemes_of_${_unit} ${_scheme})
  if(NOT "${_includes_of_${_unit}}" MATCHES "\"${_header}\"")
    string(APPEND _includes_of_${_unit} "#include \"${_header}\"\n")
  endif()
  string(APPEND _text_of_${_unit} "${text}")
endmacro()

# Writes the units of a kind as <unit>.cu, in namespace octet::cuda::<namespace>, with the includes that follow theirs; appends their paths to
# _generated. Where rows are computed a multiplication and an addition may be one instruction, which changes no integer; what packs makes constants
# and is rounded as on the host.
macro(octet_write_units kind namespace includes)
  foreach(_unit IN LISTS _units)
    if(NOT _unit MATCHES "^${kind}_")
      continue()
    endif()
    set(_file "${CMAKE_CURRENT_BINARY_DIR}/cuda/${_unit}.cu")
    string(REPLACE ";" ", " _schemes "${_schemes_of_${_unit}}")
    file(CONFIGURE OUTPUT "${_file}" CONTENT
"// Generated from cmake/instances.cmake: kernels of ${_schemes}.
${_includes_of_${_unit}}${includes}namespace octet::cuda::${namespace} {
${_text_of_${_unit}}}
" @ONLY)
    if(NOT _unit MATCHES "^pack_|_integer$|_qflash$")
      set_source_files_properties("${_file}" PROPERTIES COMPILE_OPTIONS "-fmad=true")
    endif()
    list(APPEND _generated "${_file}")
  endforeach()
endmacro()

# Writes the units of those, and the tables that find their kernels; without Hopper among the architectures, tables of none.
function(octet_generate_hopper out_var table_var)
  set(_generated)
  set(_declarations "")
  set(_cases "")
  set(_forms "")
  if("${OCTET_CUDA_ARCHITECTURES}" MATCHES "(^|;)90a?(-real)?(;|$)")
    foreach(_row IN LISTS OCTET_INSTANCES OCTET_CUDA_FORMS)
      octet_split_instance("${_row}")
      set(_own ${OCTET_CUDA_HOPPER})
      list(FILTER _own INCLUDE REGEX "^${_scheme}=")
      if(NOT _own)
        continue()
      endif()
      string(REGEX REPLACE "^.*=" "" _form "${_own}")
      set(_type "${_template}<DeviceLane>")
      if(_form)
        set(_type "${_form}<${_type}>")
      endif()
      octet_add_to_unit(wgmma
"extern const Kernels kKernels_${_scheme};
const Kernels kKernels_${_scheme} = Launches<${_type}>::table();
")
      string(APPEND _declarations "extern const Kernels kKernels_${_scheme};\n")
      if(_row IN_LIST OCTET_INSTANCES)
        string(APPEND _cases "    case Scheme::${_scheme}: return &kKernels_${_scheme};\n")
      else()
        octet_form_case(_forms ${_scheme})
      endif()
    endforeach()
    octet_write_units(wgmma wgmma
"#include \"cuda/wgmma/launch.cuh\"
#include \"numerics/early.h\"
#include \"numerics/tracked.h\"
#include \"numerics/unbiased.h\"
")
    string(APPEND _cases "    case Scheme::int4: return &kKernels_int8;\n")  # as in octet_generate_cuda
  endif()
  set(_table "${CMAKE_CURRENT_BINARY_DIR}/cuda/schemes_wgmma.cu")
  file(CONFIGURE OUTPUT "${_table}" CONTENT
"// Generated from cmake/instances.cmake: the Hopper kernels of each scheme.
#include \"cuda/wgmma/launch.h\"
namespace octet::cuda::wgmma {
${_declarations}
const Kernels* kernels_of([[maybe_unused]] Scheme scheme, [[maybe_unused]] Form form) {
${_forms}  if (form != Form::general) return nullptr;
  switch (scheme) {
${_cases}    default: return nullptr;
  }
}
}
" @ONLY)
  set(${out_var} "${_generated}" PARENT_SCOPE)
  set(${table_var} "${_table}" PARENT_SCOPE)
endfunction()

function(octet_generate_cuda out_var)
  set(_generated)
  set(_declarations "")
  set(_cases "")
  set(_forms "")
  foreach(_row IN LISTS OCTET_INSTANCES OCTET_CUDA_FORMS)
    octet_split_instance("${_row}")
    # f32: the matrix units round its operands to 10 bits. int4: its codes arrive as s8 numbers, and the arithmetic is int8's.
    if(NOT _kind STREQUAL "fused" OR _scheme STREQUAL "f32" OR _scheme STREQUAL "int4")
      continue()
    endif()
    set(_tiles whole)
    if(_scheme IN_LIST OCTET_CUDA_HOPPER_ALONE)
      set(_tiles none)
    elseif(_scheme IN_LIST OCTET_CUDA_NARROW)
      set(_tiles narrow_too)
    endif()
    octet_add_to_unit(mma
"int pack_${_scheme}(const Call&, int, const Grid&, void*);
extern const Kernels kKernels_${_scheme};
const Kernels kKernels_${_scheme} = Launches<${_template}<DeviceLane>, Tiles::${_tiles}>::table(pack_${_scheme});
")
    octet_add_to_unit(pack
"int pack_${_scheme}(const Call& call, int tile, const Grid& grid, void* stream);
int pack_${_scheme}(const Call& call, int tile, const Grid& grid, void* stream) {
  return launch_pack<${_template}<ScalarLane>>(call, tile, grid, stream);
}
")
    string(APPEND _declarations "extern const Kernels kKernels_${_scheme};\n")
    if(_row IN_LIST OCTET_INSTANCES)
      string(APPEND _cases "    case Scheme::${_scheme}: return &kKernels_${_scheme};\n")
    else()
      octet_form_case(_forms ${_scheme})
    endif()
  endforeach()
  octet_write_units(mma mma "#include \"cuda/mma/launch.cuh\"\n")
  octet_write_units(pack mma "#include \"cuda/mma/launch_pack.cuh\"\n")
  set(_table "${CMAKE_CURRENT_BINARY_DIR}/cuda/schemes.cu")
  file(CONFIGURE OUTPUT "${_table}" CONTENT
"// Generated from cmake/instances.cmake: the kernels of each scheme.
#include \"cuda/mma/launch.h\"
namespace octet::cuda::mma {
${_declarations}
const Kernels* kernels_of(Scheme scheme, Form form) {
${_forms}  if (form != Form::general) return nullptr;
  switch (scheme) {
${_cases}    case Scheme::int4: return &kKernels_int8;
    default: return nullptr;
  }
}
}
" @ONLY)
  list(APPEND _generated "${_table}")
  set(${out_var} "${_generated}" PARENT_SCOPE)
endfunction()

# What the kernels of the two units of e4m3 are compiled for, which is all that OCTET_CUDA_ARCHITECTURES runs on: of those that multiply it as it is
# sm_89 and newer, of those that multiply it as f16 what is older, or, where nothing is, the same.
function(octet_e4m3_architectures native_var as_f16_var)
  set(_native)
  set(_as_f16)
  foreach(_architecture IN LISTS OCTET_CUDA_ARCHITECTURES)
    if(_architecture MATCHES "^8[0-8]")
      list(APPEND _as_f16 ${_architecture})
      string(REGEX REPLACE "^8[0-8]" "89" _architecture ${_architecture})
    endif()
    list(APPEND _native ${_architecture})
  endforeach()
  list(REMOVE_DUPLICATES _native)
  if("80-real" IN_LIST _as_f16)  # which sm_86 runs
    list(REMOVE_ITEM _as_f16 "86-real")
  endif()
  if(NOT _as_f16)
    set(_as_f16 ${OCTET_CUDA_ARCHITECTURES})
  endif()
  set(${native_var} "${_native}" PARENT_SCOPE)
  set(${as_f16_var} "${_as_f16}" PARENT_SCOPE)
endfunction()

# Puts a unit that includes some of the sources of src/cuda in their place, which share what they include and the functions that their kernels call: two
# to four seconds of each. Their names at file scope must differ.
function(octet_cuda_unity list unit)
  set(_sources "${${list}}")
  set(_includes "")
  foreach(_source IN LISTS ARGN)
    list(REMOVE_ITEM _sources "${PROJECT_SOURCE_DIR}/src/cuda/${_source}")
    string(APPEND _includes "#include \"cuda/${_source}\"\n")
  endforeach()
  set(_file "${CMAKE_CURRENT_BINARY_DIR}/cuda/${unit}.cu")
  file(CONFIGURE OUTPUT "${_file}" CONTENT "// Generated: small sources of src/cuda.\n${_includes}" @ONLY)
  set(${list} "${_sources};${_file}" PARENT_SCOPE)
endfunction()

# Flags of every target with device code, for OCTET_CUDA_ARCHITECTURES or those that follow the target. -std as a plain option: CMake 3.25 knows no C++20 flag for this nvcc.
# --compress-mode=size: code takes a quarter of its bytes in the library, and is unpacked when the driver loads it.
# -Wno-restrict: as in flags.cmake. -fmad=false, unless a source says otherwise: a multiplication and an addition are two roundings on the host too.
function(octet_cuda_flags target)
  set(_architectures "${OCTET_CUDA_ARCHITECTURES}")
  if(ARGN)
    set(_architectures "${ARGN}")
  endif()
  # The code of sm_86 is made from the PTX of sm_80, where that is made in any case: a sixth of a unit's time, for kernels whose scores or weights it
  # converts from integers by instructions that sm_80 lacks. Elsewhere sm_86 runs the code of sm_80 (docs/cuda-measurements.md).
  set(_of_sm_86)
  if("80-virtual" IN_LIST _architectures AND "80-real" IN_LIST _architectures AND "86-real" IN_LIST _architectures)
    list(REMOVE_ITEM _architectures "86-real")
    set(_of_sm_86 "--generate-code=arch=compute_80,code=[sm_86]")
  endif()
  get_target_property(_sources ${target} SOURCES)
  set_target_properties(${target} PROPERTIES CUDA_STANDARD_REQUIRED OFF CUDA_ARCHITECTURES "${_architectures}"
    POSITION_INDEPENDENT_CODE ON CUDA_VISIBILITY_PRESET hidden)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20 --expt-relaxed-constexpr -Werror=all-warnings --compress-mode=size>
    "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Xcompiler -ffp-contract=off,-Wno-restrict>")
  foreach(_source IN LISTS _sources)
    get_source_file_property(_options ${_source} COMPILE_OPTIONS)
    if(NOT _options MATCHES "-fmad")
      set_property(SOURCE ${_source} APPEND PROPERTY COMPILE_OPTIONS -fmad=false)
    endif()
    if(_source MATCHES "/mma_" AND NOT _source MATCHES "_integer")
      set_property(SOURCE ${_source} APPEND PROPERTY COMPILE_OPTIONS ${_of_sm_86})
    endif()
  endforeach()
endfunction()

# Keeps what ptxas says of the kernels of a target beside its objects (keep_ptxas.sh): registers, stack and spills stand in no object.
function(octet_keep_ptxas target)
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Xptxas -v>")
  set_target_properties(${target} PROPERTIES RULE_LAUNCH_COMPILE "${PROJECT_SOURCE_DIR}/cmake/keep_ptxas.sh <OBJECT>")
endfunction()
