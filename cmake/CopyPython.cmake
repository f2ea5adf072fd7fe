# Makes OUT what FILES says: cmake -DFILES=FILE -DOUT=DIR -P CopyPython.cmake
# A line of FILES is SOURCE=PATH, the path relative to OUT. Other files of OUT are removed, and folders that
# they leave empty. Files that are the same are not touched: a program may be importing them.
cmake_minimum_required(VERSION 3.25)
file(STRINGS ${FILES} lines)
list(TRANSFORM lines REPLACE "^.*=" "" OUTPUT_VARIABLE kept)

# Caches of interpreters, and bridges, which tests put there, are not of the sources.
file(GLOB_RECURSE present RELATIVE ${OUT} ${OUT}/*)
list(FILTER present EXCLUDE REGEX "/__pycache__/|\\.so$")
if(kept)
  list(REMOVE_ITEM present ${kept})
endif()
foreach(file ${present})
  file(REMOVE ${OUT}/${file})
  get_filename_component(folder ${OUT}/${file} DIRECTORY)
  file(GLOB rest ${folder}/*)
  list(FILTER rest EXCLUDE REGEX "/__pycache__$")
  if(NOT rest)
    file(REMOVE_RECURSE ${folder})
  endif()
endforeach()

foreach(line ${lines})
  string(REGEX MATCH "^(.*)=(.*)$" found "${line}")
  get_filename_component(folder ${CMAKE_MATCH_2} DIRECTORY)
  file(COPY ${CMAKE_MATCH_1} DESTINATION ${OUT}/${folder}
    FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
endforeach()
