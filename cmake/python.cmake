# What `pip install .` puts beside the Python package: the shared library under one plain name, since a wheel holds no links.
target_link_options(octet_shared PRIVATE -s)
install(FILES $<TARGET_FILE:octet_shared> DESTINATION octet RENAME liboctet.so COMPONENT python
  PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
