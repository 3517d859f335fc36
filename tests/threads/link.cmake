# One test unloads the shared library.
add_dependencies(test_threads octet_shared)
target_compile_definitions(test_threads PRIVATE OCTET_LIBRARY="$<TARGET_FILE:octet_shared>")
target_link_libraries(test_threads PRIVATE ${CMAKE_DL_LIBS})
