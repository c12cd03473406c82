# KVC_TRY_FLAG(VARIABLE, FLAG): appends FLAG to VARIABLE where the compiler takes it without a word.
AC_DEFUN([KVC_TRY_FLAG], [
    AC_MSG_CHECKING([whether $CC takes $2])
    kvc_saved_CFLAGS=$CFLAGS
    CFLAGS="$CFLAGS -Werror $2"
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])], [kvc_takes=yes], [kvc_takes=no])
    CFLAGS=$kvc_saved_CFLAGS
    AC_MSG_RESULT([$kvc_takes])
    AS_IF([test "$kvc_takes" = yes], [$1="$$1 $2"])
])
