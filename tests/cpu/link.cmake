# The calls that tests/attention makes.
target_sources(test_cpu PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/attention/calls.cpp ${CMAKE_CURRENT_SOURCE_DIR}/attention/distributions.cpp)
