# KVC_MARKDOWN: the option --with-markdown. Sets MARKDOWN_JS to the file of the library marked, which the build puts
# into the server's page, or to nothing. The library is data here: no program of the build runs it.
AC_DEFUN([KVC_MARKDOWN], [
    AC_ARG_WITH([markdown], [AS_HELP_STRING([--with-markdown=auto|yes|no|FILE],
        [Markdown in the server's page, by marked.min.js of the library marked, from version 4 (auto)])],
        [], [with_markdown=auto])
    MARKDOWN_JS=
    AS_CASE([$with_markdown],
        [auto | yes], [
            for file in /usr/share/javascript/marked/marked.min.js /usr/share/nodejs/marked/marked.min.js \
                /usr/lib/node_modules/marked/marked.min.js /usr/lib/node_modules/marked/lib/marked.umd.js; do
                AS_IF([test -z "$MARKDOWN_JS" && test -r "$file"], [MARKDOWN_JS=$file])
            done
            AS_IF([test -z "$MARKDOWN_JS" && test "$with_markdown" = yes],
                [AC_MSG_ERROR([marked is missing (Debian: apt-get install libjs-marked)])])],
        [no], [],
        [MARKDOWN_JS=$with_markdown])
    AS_IF([test -n "$MARKDOWN_JS"], [
        KVC_NO_SPACE([--with-markdown], ["$MARKDOWN_JS"])
        AS_IF([test -r "$MARKDOWN_JS"], [], [AC_MSG_ERROR([--with-markdown: $MARKDOWN_JS cannot be read])])
        dnl The page calls lexer of an object that is named marked.
        AS_IF([grep -q '\<lexer\>' "$MARKDOWN_JS" && grep -q '\<marked\>' "$MARKDOWN_JS"], [], [
            AS_IF([test "$with_markdown" = auto], [MARKDOWN_JS=],
                [AC_MSG_ERROR([--with-markdown: $MARKDOWN_JS is not the library marked, from version 4])])])])
    have_markdown=${MARKDOWN_JS:-no}
    AC_SUBST([MARKDOWN_JS])
])
