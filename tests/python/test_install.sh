#!/bin/sh
# `pip install` of the package finds the library by the environment, by pkg-config and in a build of the tree, and the
# installed package runs without the tree.
case ${SANITIZE_FLAGS-} in ?*) echo 'elsewhere: ./dev check --plain runs this; an interpreter cannot load a sanitized library'; exit 77 ;; esac
. "${top_srcdir:-.}/tests/cli/lib.sh"
not_in_valgrind
python=${PYTHON:-python3}
for module in cffi numpy setuptools wheel pip; do
    "$python" -c "import $module" 2>/dev/null || { echo "skipped: no $module in $python"; exit 77; }
done
command -v pkg-config >/dev/null || { echo 'skipped: no pkg-config'; exit 77; }
[ -e "$build/.libs/libkvcull.so" ] || { echo "skipped: no $build/.libs/libkvcull.so (static build)"; exit 77; }
unset KVCULL_LIBRARY KVCULL_INCLUDE
export PYTHONDONTWRITEBYTECODE=yes
# A tree with only what the package needs, so that nothing is written to the sources.
mkdir -p "$work/tree/data" "$work/tree/build/.libs" "$work/empty" "$work/prefix/lib/pkgconfig"
cp -R "$source/python" "$source/include" "$work/tree"
cp -R "$demo" "$work/tree/data"
rm -rf "$work/tree/python/build"
cp -P "$build"/.libs/libkvcull.so* "$work/prefix/lib"
ln -s "$source/include" "$work/prefix/include"
sed "s|^prefix=.*|prefix=$work/prefix|; s|^libdir=.*|libdir=$work/prefix/lib|; s|^includedir=.*|includedir=$work/prefix/include|" \
    "$build/kvcull.pc" >"$work/prefix/lib/pkgconfig/kvcull.pc"
# installs NAME: installs with the current environment into $work/NAME.
installs() {
    rm -rf "$work/tree/python/build"
    "$python" -m pip install -q --no-build-isolation --no-deps --no-index --disable-pip-version-check --target "$work/$1" \
        "$work/tree/python" >"$work/out" 2>"$work/err" </dev/null
    status=$?
}
# answers NAME: the package installed there answers the bundled model's question.
answers() {
    (cd "$work/empty" && PYTHONPATH="$work/$1" "$python" -c '
import sys, kvcull
assert kvcull.__file__.startswith(sys.argv[1])
model = kvcull.Model(sys.argv[2], threads=1)
print(model.session(kvcull.policy.snapkv(budget=40)).answer(
    "the magic number for lantern 48 21 . question : the magic number for lantern", tokens=2, temperature=0))' \
        "$work" "$demo") >"$work/out" 2>"$work/err"
    that "what $1 installed runs" [ $? = 0 ]
    has '48 21'
}
export PKG_CONFIG_LIBDIR="$work/empty"
KVCULL_LIBRARY=$work/prefix/lib/libkvcull.so installs environment
that 'by KVCULL_LIBRARY' [ $status = 0 ]
answers environment
PKG_CONFIG_LIBDIR=$work/prefix/lib/pkgconfig installs pkgconfig
that 'by pkg-config' [ $status = 0 ]
answers pkgconfig
KVCULL_LIBRARY=$work/nosuch.so installs wrong
that 'a library that is not there' [ $status != 0 ]
has 'nosuch.so: no such file' "$work/err"
cp -P "$build"/.libs/libkvcull.so* "$work/tree/build/.libs"
installs in-tree
that 'of a build in the tree' [ $status = 0 ]
mv "$work/tree" "$work/gone"
answers in-tree
(cd "$work/empty" && PYTHONPATH="$work/in-tree" "$python" -m kvcull demo) >"$work/out" 2>"$work/err"
that 'with the bundled model' [ $? = 0 ]
(cd "$work/empty" && PYTHONPATH="$work/in-tree" "$python" -m kvcull.eval list) >"$work/out" 2>"$work/err"
that 'the benchmarks of what is installed' [ $? = 0 ]
has '^longbench/hotpotqa '
that 'the types of the methods' [ -s "$work/in-tree/kvcull/policy.pyi" ]
that 'the mark of typed packages' [ -e "$work/in-tree/kvcull/py.typed" ]
finish
