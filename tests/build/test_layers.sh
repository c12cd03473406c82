#!/bin/sh
# Arrows run one way: cli, eval, examples -> include -> core -> backends; policies, models -> core. And names stay where
# they belong: a policy names no backend, a backend no policy, core no model family, the project no tab or long line.
cd "$top_srcdir" || exit 1
bad=0
# none FOLDERS PATTERN WHY: no C file of these folders matches.
none() {
    for folder in $1; do
        [ -d "$folder" ] || continue
        find "$folder" -name '*.[ch]' | sort | xargs -r grep -nE "$2" /dev/null | sed "s|^|$3: |" | grep . && bad=1
    done
}
inside='#include "(core|backends|models|policies|eval|cli|bench)/'
none cli '#include "(core|backends|models|policies)/' 'the program uses the library through include/ only'
none cli '#include "(eval|examples)/' 'the program finds the tasks of eval in a table (cli_eval_tasks)'
none eval '#include "(core|backends|models|policies)/' 'eval uses the library through include/ only'
none examples "$inside" 'examples use the library through include/ only'
none core '#include "(models|policies|eval|cli|bench)/' 'core knows nothing above it'
none backends '#include "(models|policies|eval|cli|bench)/' 'a backend knows nothing above core'
none policies '#include "(backends|models|eval|cli|bench|core/(engine|stage|forecast|check|measure))/' \
    'a policy works through include/kvcull/policy.h and takes arithmetic from core/base only'
none models '#include "(backends|policies|eval|cli|bench)/' 'models use core only'
none core '"(llama|mistral|qwen[0-9]*|phi[0-9]*)"' 'core names no model family'
none backends '"(full|window|streaming|snapkv|morphkv)"' 'a backend names no policy'
none 'cli eval examples core backends policies models bench include tools tests' '	|[ ]$' 'tab, or blank at the end'
none 'cli eval examples core backends policies models bench include tools' '^.{133,}' 'far more than 120 columns'
exit $bad
