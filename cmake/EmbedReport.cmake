# Makes OUT, a C file with the page of the report: cmake -DSOURCE=DIR -DOUT=FILE -P EmbedReport.cmake
# scripts.txt names the scripts in the order in which they become one.
file(STRINGS ${SOURCE}/scripts.txt scripts)
set(script "(() => {\n\"use strict\";\n")
foreach(name ${scripts})
  file(READ ${SOURCE}/${name} text)
  string(APPEND script "${text}")
endforeach()
string(APPEND script "})();\n")
file(READ ${SOURCE}/style.css style)
file(READ ${SOURCE}/page.html page)

# What only people read stays behind: comments and the room in front of lines.
function(shorten name)
  string(REGEX REPLACE "/\\*[^*]*\\*/" "" text "${${name}}")
  string(REGEX REPLACE "\n[ \n]+" "\n" text "${text}")
  set(${name} "${text}" PARENT_SCOPE)
endfunction()
shorten(script)
shorten(style)

set(code "/* Made by cmake/EmbedReport.cmake. */\n#include \"export/report.h\"\n\n")
function(add_asset name text)
  string(SHA256 sum "${text}")
  string(HEX "${text}" hex)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)"
    "\\1\n" bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," sum "${sum}")
  set(code "${code}static const unsigned char ${name}[] = {\n${bytes}0};\n" PARENT_SCOPE)
  set(assets "${assets}const ke_asset ke_report_${name} = {(const char *)${name}, sizeof ${name} - 1,\n    {${sum}}};\n"
    PARENT_SCOPE)
endfunction()
add_asset(page "${page}")
add_asset(style "${style}")
add_asset(script "${script}")
file(WRITE ${OUT} "${code}\n${assets}")
