# The calls that tests/attention makes, and the CUDA run time that is linked statically.
target_sources(test_cuda PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/attention/calls.cpp ${CMAKE_CURRENT_SOURCE_DIR}/attention/combinations.cpp
  ${CMAKE_CURRENT_SOURCE_DIR}/attention/distributions.cpp)
target_include_directories(test_cuda SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
