# KVC_NO_SPACE(OPTION, PATH...): ends where one of the paths has a space in it, at which make splits names.
AC_DEFUN([KVC_NO_SPACE], [
    for kvc_path in m4_shift($@); do
        AS_CASE([$kvc_path], [*[[[:space:]]]*],
            [AC_MSG_ERROR([$1: "$kvc_path" has a space in it, at which make would split it; give a path without spaces, a symbolic link for example])])
    done
])
