#!/bin/sh
# Package managers' recipes decide about every library that configure would otherwise search for. recipes.py exercises
# those whose programs are seldom installed. If ReFrame is installed, its check passes.
. "${top_srcdir:-.}/tests/cli/lib.sh"
not_in_valgrind
recipes=$source/packaging
for library in $(sed -n 's/^AC_ARG_WITH(\[\([a-z]*\)\].*=auto|yes|no.*/\1/p' "$source/configure.ac"); do
    for recipe in apptainer/kvcull.def debian/rules docker/Dockerfile easybuild/kvcull.eb; do
        that "packaging/$recipe says --with-$library" grep -q -e "--with-$library=" "$recipes/$recipe"
    done
    that "packaging/spack has the variant $library" grep -q "variant(\"$library\"" "$recipes/spack/kvcull/package.py"
    seen=yes
done
that 'configure has optional libraries' [ "${seen-}" = yes ]
python=${PYTHON:-python3}
if command -v "$python" >/dev/null; then
    for recipe in spack easybuild docker apptainer reframe; do
        that "recipe $recipe" "$python" "$source/tests/build/recipes.py" $recipe "$source" "$program"
    done
else
    echo "no $python"
fi
if command -v reframe >/dev/null; then
    reframe --nocolor --prefix "$work" --system generic -c "$recipes/reframe/kvcull_checks.py" -n answer -r \
        -S executable="$program" -S data="$source/data" >"$work/out" 2>"$work/err"
    that 'the check for ReFrame passes' [ $? = 0 ]
    has 'Ran 1/1 test case(s).*(0 failure(s)'
else
    echo 'no reframe'
fi
finish
