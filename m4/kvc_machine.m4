# KVC_MACHINE(TITLE, CONDITION, IS): a preprocessor condition that holds where kvcull runs; elsewhere configure ends and
# says what the host IS.
AC_DEFUN([KVC_MACHINE], [
    AC_MSG_CHECKING([$1])
    AC_COMPILE_IFELSE([AC_LANG_SOURCE([[
#include <stdint.h>
#if !($2)
#error
#endif]])], [AC_MSG_RESULT([yes])],
        [AC_MSG_RESULT([no]); AC_MSG_ERROR([$host is $3])])
])
