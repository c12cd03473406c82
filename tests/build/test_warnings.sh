#!/bin/sh
# Warnings are errors only if configure was told so, as .ci/run does through ./dev.
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
fail() { echo "$*"; exit 1; }
case $("$top_builddir/config.status" --config) in *--enable-werror*) asked=yes ;; *) asked=no ;; esac
case " $(sed -n 's/^WARN_CFLAGS = //p' "$top_builddir/Makefile") " in *' -Werror '*) errors=yes ;; *) errors=no ;; esac
[ $asked = $errors ] || fail "configure was told --enable-werror: $asked; warnings are errors: $errors"

# .ci/run and dev with a fake configure that only records its arguments. A tarball has no .ci.
[ -e "$top_srcdir/.ci/run" ] && command -v bash >/dev/null || exit 0
mkdir -p "$work/.ci" "$work/tests/real"
cp "$top_srcdir/.ci/run" "$work/.ci/run" && cp "$top_srcdir/dev" "$work/dev" && cp -R "$top_srcdir/tests/jobs" "$work/tests"
cp "$top_srcdir/tests/real/bring.sh" "$top_srcdir/tests/real/models.txt" "$work/tests/real" && cp -R "$top_srcdir/tests/devices" "$work/tests"
cat >"$work/configure" <<'END'
#!/bin/sh
echo "$*" >given
printf 'all:\n' >Makefile
END
chmod +x "$work/configure" && : >"$work/Makefile.in"
unset MAKEFLAGS MFLAGS MAKELEVEL KVCULL_CONFIGURE
(cd "$work" && ./dev build) >"$work/log" 2>&1 || { cat "$work/log"; fail './dev build failed'; }
[ "$(cat "$work/build/given")" = '' ] || fail "./dev build gives configure '$(cat "$work/build/given")'"
mv "$work/dev" "$work/dev.real"
printf '#!/bin/sh\nexec ./dev.real build\n' >"$work/dev" && chmod +x "$work/dev"
(cd "$work" && .ci/run) >"$work/log" 2>&1 || { cat "$work/log"; fail '.ci/run failed'; }
[ "$(cat "$work/build/given")" = --enable-werror ] || fail ".ci/run gives configure '$(cat "$work/build/given")'"
