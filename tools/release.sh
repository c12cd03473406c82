#!/bin/sh
# release.sh - makes a release from a folder that `make distdir` filled: a tarball, binary files (tools/binary.sh),
# checksums, and notes. The same commit and the same autotools give byte-identical files at any time and place. `make
# release` calls this script.
#
#     tools/release.sh [--tag] [--draft] [--source] DISTDIR SOURCE FOLDER
#
# --tag: sets the annotated tag vVERSION. --draft: for trials; the version need not be marked as released, and the
# checkout need not be clean. --source: without binary files, which need a network.
set -eu
tag=false draft=false binary=true
while :; do
    case $1 in
    --tag) tag=true ;;
    --draft) draft=true ;;
    --source) binary=false ;;
    *) break ;;
    esac
    shift
done
tree=$1 source=$2 folder=$3
fail() { echo "release: $*" >&2; exit 1; }
version=$(sed -n 's/^#define KVC_VERSION "\(.*\)".*/\1/p' "$tree/include/kvcull.h")
name=kvcull-$version

# All files must name the same version, and the version must have a date.
grep -q "^version: \"$version\"\$" "$tree/CITATION.cff" || fail "CITATION.cff does not say version: \"$version\""
sed -n 1p "$tree/packaging/debian/changelog" | grep -q "^kvcull ($version-" ||
    fail "packaging/debian/changelog does not begin with kvcull ($version-1)"
says() { grep -qF -- "$2" "$tree/packaging/$1" || fail "packaging/$1 does not say $2"; }
says apptainer/kvcull.def "VERSION=$version"
says easybuild/kvcull.eb "version = '$version'"
says spack/kvcull/package.py "version(\"$version\""
heading=$(grep "^## $version " "$tree/CHANGELOG.md") || fail "CHANGELOG.md has no ## $version"
if ! $draft; then
    echo "$heading" | grep -qE '\([0-9]{4}-[0-9]{2}-[0-9]{2}\)$' || fail "CHANGELOG.md: '$heading' must end in its day, (YYYY-MM-DD)"
    [ -z "$(git -C "$source" status --porcelain)" ] || fail 'the checkout has changes that no commit has'
fi
# The time of all files: that of the commit or, without a checkout, of the newest file.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$source" log -1 --format=%ct 2>/dev/null || stat -c %Y "$tree/include/kvcull.h")}
mkdir -p "$folder"
rm -f "$folder/$name.tar.gz" "$folder/$name.sha256" "$folder/$name.notes.md" "$folder/$name"-*linux*
chmod -R u=rwX,go=rX "$tree"
LC_ALL=C tar --sort=name --format=ustar --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
    --transform "s|^\\.|$name|" -C "$tree" -cf - . | gzip -n -9 >"$folder/$name.tar.gz.part"
mv "$folder/$name.tar.gz.part" "$folder/$name.tar.gz"
awk -v heading="$heading" '$0 == heading { within = 1 } within && /^## / && $0 != heading { exit } within { print }' \
    "$tree/CHANGELOG.md" >"$folder/$name.notes.md"
if $binary; then
    SOURCE_DATE_EPOCH=$SOURCE_DATE_EPOCH sh "$tree/tools/binary.sh" "$tree" "$folder" >&2
fi
(cd "$folder" && find . -name "$name.tar.gz" -o -name "$name.notes.md" -o -name "$name-*linux*" | sed 's|^\./||' | LC_ALL=C sort |
    xargs sha256sum >"$name.sha256")
if $tag; then
    git -C "$source" tag -a "v$version" -F - --cleanup=verbatim <"$folder/$name.notes.md"
    echo "tagged v$version"
fi
cat "$folder/$name.sha256"
