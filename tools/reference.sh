#!/bin/sh
# reference.sh - writes the reference of the C interface: tools/reference.sh SOURCE FOLDER makes FOLDER/html/index.html and
# FOLDER/xml from the comments of the public headers. Fails if a function, type, member, enumerator or macro has no comment.
set -eu
source=$1
mkdir -p "$2"
folder=$(cd "$2" && pwd)
rm -rf "$folder/html" "$folder/xml"
cd "$source"
version=$(sed -n 's/^#define KVC_VERSION "\(.*\)".*/\1/p' include/kvcull.h)
{
    cat docs/reference/Doxyfile
    echo "PROJECT_NUMBER = $version"
    echo "OUTPUT_DIRECTORY = \"$folder\""
} | "${DOXYGEN:-doxygen}" -
# Doxygen accepts an opaque struct without a comment; versions before 1.9.7 also accept an enumerator without one.
for file in "$folder"/xml/struct*.xml; do
    grep -q '<para>' "$file" || { sed -n 's|.*<compoundname>\(.*\)</.*|struct \1 has no comment|p' "$file"; exit 1; }
done
awk '
    /<enumvalue / { name = ""; documented = 0 }
    /<name>/ && name == "" { name = $0; gsub(/<[^>]*>| /, "", name) }
    /<para>/ { documented = 1 }
    /<\/enumvalue>/ { if (!documented) { print name ": the enumerator has no comment"; wrong = 1 } }
    END { exit wrong }' "$folder"/xml/*_8h.xml
