# the Debian packages: dpkg-buildpackage builds them, lintian accepts them (on Debian)
usable_debian() { have dpkg-buildpackage && have lintian; }

check_debian() {
    local start=$SECONDS log=build/debian.log status
    build_in build
    step 'making a tarball' build/release.log within make -C build release RELEASE_FLAGS='--draft --source'
    rm -rf build/debian
    DEB_BUILD_OPTIONS="${DEB_BUILD_OPTIONS-} parallel=$jobs" within sh tools/debian.sh build/release/kvcull-*.tar.gz build/debian \
        </dev/null >$log 2>&1
    status=$?
    say "debian: $((SECONDS - start)) s"
    case $status in
    0) add 1 0 0 ;;
    77) skip debian "$(tail -n 1 $log)" ;;
    *) failure 'debian: no packages'; tail -n 30 $log >&2 ;;
    esac
}
