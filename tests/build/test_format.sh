#!/bin/sh
# The C files of a checkout are formatted by clang-format 14 with the project's .clang-format; other versions format
# differently.
for format in clang-format-14 clang-format none; do
    "$format" --version 2>/dev/null | grep -q 'version 14\.' && break
done
[ "$format" != none ] || { echo "no clang-format 14"; exit 77; }
cd "${srcdir-.}" && git ls-files --error-unmatch .clang-format >/dev/null 2>&1 || { echo "no checkout"; exit 77; }
git ls-files '*.c' '*.h' '*.cc' '*.cu' | xargs "$format" --dry-run --Werror
