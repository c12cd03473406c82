#!/bin/sh
# source.sh - a Debian source tree of a release tarball: packaging/debian/source.sh TARBALL FOLDER unpacks it in FOLDER, puts
# debian/ in its place and the tarball where dpkg-source looks for it. Then, in the folder that it prints:
#   dpkg-buildpackage -us -uc && lintian -EvIL +pedantic ../kvcull_*.changes
set -eu
tarball=$1
folder=$2
name=$(basename "$tarball" .tar.gz)
mkdir -p "$folder"
cp "$tarball" "$folder/kvcull_${name#kvcull-}.orig.tar.gz"
tar -C "$folder" -xzf "$tarball"
cp -R "$folder/$name/packaging/debian" "$folder/$name/debian"
rm "$folder/$name/debian/source.sh"
chmod +x "$folder/$name/debian/rules"
echo "$folder/$name"
