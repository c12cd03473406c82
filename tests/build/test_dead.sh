#!/bin/sh
# No function, macro or option of the product is used by tests only or by nothing (tools/dead.py).
case ${SANITIZE_FLAGS-} in ?*) echo 'elsewhere: ./dev check --plain runs this; sanitizers add symbols'; exit 77 ;; esac
python=${PYTHON:-python3}
command -v "$python" >/dev/null || { echo "no $python"; exit 77; }
[ -e "$top_builddir/.libs/libkvcull.so" ] || { echo 'no shared library, whose objects name all functions that they call'; exit 77; }
"$python" "$top_srcdir/tools/dead.py" "$top_builddir" "$top_srcdir"
