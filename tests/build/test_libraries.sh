#!/bin/sh
# The program and the library link only the C library and the libraries that every run uses. They open all others when a
# run needs them.
command -v readelf >/dev/null || { echo 'no readelf'; exit 77; }
case $SANITIZE_FLAGS in ?*) echo 'elsewhere: ./dev check --plain runs this; sanitizers link libraries of their own'; exit 77 ;; esac
allowed='^lib\(c\|m\|dl\|rt\|pthread\|kvcull\|jansson\|pcre2-8\|utf8proc\|microhttpd\)\.so\|^ld-linux\|^libc\.musl'
status=0
for file in "$top_builddir/.libs/libkvcull.so" "$top_builddir/.libs/kvcull"; do
    [ -e "$file" ] || { echo "no $file"; exit 77; }
    linked=$(readelf -d "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -v "$allowed")
    [ -z "$linked" ] || { echo "$file links $linked: must be opened by core/base/library.c"; status=1; }
done
exit $status
