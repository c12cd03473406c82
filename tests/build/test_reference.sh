#!/bin/sh
# Every part of the public headers has a comment, and doxygen makes the reference of the C interface without a warning
# (make reference). A missing comment on a function, a member or an enumerator is an error.
command -v "${DOXYGEN:-doxygen}" >/dev/null || { echo 'no doxygen'; exit 77; }
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
sh "$top_srcdir/tools/reference.sh" "$top_srcdir" "$work/made" || { echo 'the public headers need comments'; exit 1; }
[ -s "$work/made/html/index.html" ] || { echo 'there is no index.html'; exit 1; }

# A copy of the headers without one comment fails.
mkdir -p "$work/tree/docs/reference"
cp "$top_srcdir/docs/reference/Doxyfile" "$work/tree/docs/reference/"
refused() { # SCRIPT FILE: sed removes a comment from a header
    rm -rf "$work/tree/include"
    mkdir -p "$work/tree/include"
    cp -r "$top_srcdir/include/." "$work/tree/include/"
    sed "$1" "$top_srcdir/include/$2" >"$work/tree/include/$2"
    ! cmp -s "$top_srcdir/include/$2" "$work/tree/include/$2" || { echo "$1 changes nothing in $2"; exit 1; }
    ! sh "$top_srcdir/tools/reference.sh" "$work/tree" "$work/bad" >"$work/log" 2>&1 ||
        { echo "a header without a comment is accepted: $1"; exit 1; }
}
refused '/^\/\*\* Returns the number of ranks\. \*\/$/d' kvcull/ranks.h              # a function
refused 's|\(uint64_t decode_steps;\).*|\1|' kvcull.h                               # a member
refused 's|\(KVC_ENTRY_NORM,\).*|\1|' kvcull/policy.h                               # an enumerator
refused 's|^/\*\* A text in progress.*||' kvcull.h                                  # an opaque struct
