# The schemes in VectorLane, compiled once for each instruction set.
octet_write_fused_schemes("${CMAKE_CURRENT_BINARY_DIR}/numerics/fused_schemes.h")
target_include_directories(test_numerics PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/numerics)
octet_lane_units(numerics/schemes)
target_link_libraries(test_numerics PRIVATE octet_tool_json)  # the fixtures are JSON
