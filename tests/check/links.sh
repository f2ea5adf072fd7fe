#!/bin/sh
# links.sh LIBRARY FOLDER NAME…: the library as FOLDER/check-NAME.so for each. They are files of their
# own, which symbolic links would not be to those who look where these lead.
set -eu
library=$1 folder=$2
shift 2
mkdir -p "$folder"
for name in "$@"; do
    ln -f "$library" "$folder/check-$name.so" 2>/dev/null || cp -f "$library" "$folder/check-$name.so"
done
