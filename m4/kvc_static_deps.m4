# KVC_STATIC_DEPS: the option --with-static-deps, which makes KVC_ARCHIVES link static libraries.
AC_DEFUN([KVC_STATIC_DEPS], [
    AC_ARG_WITH([static-deps], [AS_HELP_STRING([--with-static-deps@<:@=DIR@:>@],
        [link archives of jansson, pcre2, utf8proc and libmicrohttpd, so that libkvcull needs only the C library;
         DIR has their include and lib (no)])], [], [with_static_deps=no])
    # What pkg-config says of the libraries of a program that uses libkvcull; the archives are inside.
    KVC_REQUIRES='jansson libpcre2-8 libutf8proc'
    AS_CASE([$with_static_deps], [no], [], [KVC_REQUIRES=])
    AS_CASE([$with_static_deps], [no | yes], [], [
        KVC_NO_SPACE([--with-static-deps], ["$with_static_deps"])
        PKG_CONFIG_LIBDIR=$with_static_deps/lib/pkgconfig
        unset PKG_CONFIG_PATH
        export PKG_CONFIG_LIBDIR
        CPPFLAGS="$CPPFLAGS -isystem $with_static_deps/include"])
    AC_SUBST([KVC_REQUIRES])
    # All archives, for programs that link a static libkvcull: libtool does not record archives as its dependencies.
    ARCHIVE_LIBS=
    AC_SUBST([ARCHIVE_LIBS])
])
# KVC_ARCHIVES(VARIABLE, MODULE): sets VARIABLE_LIBS to the static archives of the pkg-config MODULE; system libraries such
# as -lm stay.
AC_DEFUN([KVC_ARCHIVES], [
    AS_IF([test "$with_static_deps" != no], [
        kvc_folder=`$PKG_CONFIG --variable=libdir $2`
        kvc_libs=
        for kvc_word in `$PKG_CONFIG --static --libs-only-l $2`; do
            kvc_archive=$kvc_folder/`echo "$kvc_word" | sed 's/^-l\(.*\)/lib\1.a/'`
            AS_CASE([$kvc_word],
                [-lpthread | -lm | -ldl | -lrt], [kvc_libs="$kvc_libs $kvc_word"],
                [AS_IF([test -e "$kvc_archive"], [kvc_libs="$kvc_libs $kvc_archive"],
                    [AC_MSG_ERROR([--with-static-deps: $2 needs $kvc_archive, which does not exist])])])
        done
        $1_LIBS=$kvc_libs
        ARCHIVE_LIBS="$ARCHIVE_LIBS $kvc_libs"])
])
