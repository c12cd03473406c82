#!/bin/sh
# The Python package's own tests (python/tests) with this build's library, if pytest, cffi and numpy are installed.
# PYTHON is an interpreter.
case ${SANITIZE_FLAGS-} in ?*) echo 'elsewhere: ./dev check --plain runs this; an interpreter cannot load a sanitized library'; exit 77 ;; esac
. "${top_srcdir:-.}/tests/cli/lib.sh"
not_in_valgrind
python=${PYTHON:-python3}
for module in cffi numpy pytest; do
    "$python" -c "import $module" 2>/dev/null || { echo "skipped: no $module in $python"; exit 77; }
done
KVCULL_LIBRARY=$build/.libs/libkvcull.so
[ -e "$KVCULL_LIBRARY" ] || { echo "skipped: no $KVCULL_LIBRARY (static build)"; exit 77; }
KVCULL_SOURCE=$source KVCULL_BUILD=$build KVCULL_INCLUDE=$source/include PYTHONPATH=$source/python
PYTHONDONTWRITEBYTECODE=yes MPLCONFIGDIR=$work
export KVCULL_LIBRARY KVCULL_SOURCE KVCULL_BUILD KVCULL_INCLUDE PYTHONPATH PYTHONDONTWRITEBYTECODE MPLCONFIGDIR
cd "$work" && "$python" -m pytest -q -rs -x -p no:cacheprovider "$source/python/tests"
