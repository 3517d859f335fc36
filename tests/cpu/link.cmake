# The calls that tests/attention makes.
target_sources(test_cpu PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/attention/calls.cpp ${CMAKE_CURRENT_SOURCE_DIR}/attention/combinations.cpp
  ${CMAKE_CURRENT_SOURCE_DIR}/attention/distributions.cpp)
# The sets' own exponentials, compiled once for each set; AVX2's needs FMA too.
octet_lane_units(cpu/fused_exp2)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set_source_files_properties(cpu/fused_exp2_avx2.cpp PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma")
endif()
