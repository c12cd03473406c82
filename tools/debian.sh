#!/bin/sh
# debian.sh - builds and tests the Debian packages of a release. tools/debian.sh TARBALL FOLDER creates FOLDER, runs
# dpkg-buildpackage there with packaging/debian, checks the packages with lintian, and runs the packaged program. An
# error or warning of lintian is a failure. DEB_BUILD_OPTIONS: as for dpkg-buildpackage; unless it has nocheck, all
# operations and methods are compared with their stored hashes. Exit status 77: a build tool or library is missing.
set -eu
tarball=$1
folder=$2
fail() { echo "debian: $*" >&2; exit 1; }
for tool in dpkg-buildpackage dpkg-checkbuilddeps dh dh_python3 lintian; do
    command -v $tool >/dev/null || { echo "no $tool (apt-get install dpkg-dev debhelper dh-python lintian)"; exit 77; }
done
[ ! -e "$folder" ] || fail "$folder is there already"
tree=$(sh "$(dirname "$0")/../packaging/debian/source.sh" "$tarball" "$folder")
tree=$(cd "$tree" && pwd)
(cd "$tree" && dpkg-checkbuilddeps) || exit 77
cd "$tree/.."
(cd "$tree" && dpkg-buildpackage -us -uc) >build.log 2>&1 || { tail -n 30 build.log; fail "dpkg-buildpackage failed; $PWD/build.log"; }
user=
[ "$(id -u)" != 0 ] || user=--allow-root
lintian $user -I --fail-on error,warning ./*.changes >lintian.log 2>&1 || { cat lintian.log; fail 'lintian complains'; }
cat lintian.log
for package in ./kvcull_*.deb ./libkvcull0_*.deb ./python3-kvcull_*.deb; do dpkg-deb -x "$package" root; done
libraries=$(dirname "$PWD"/root/usr/lib/*/libkvcull.so.0)
answer=$(LD_LIBRARY_PATH=$libraries root/usr/bin/kvcull run -m root/usr/share/kvcull/demo -n 2 --temp 0 -q --kv snapkv:budget=40 \
    -p 'the magic number for lantern 48 21 . question : the magic number for lantern')
case $answer in *'48 21'*) ;; *) fail "the packaged program answers '$answer', not 48 21" ;; esac
ls ./*.deb
