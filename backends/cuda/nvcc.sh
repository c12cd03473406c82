#!/bin/sh
# nvcc.sh NVCC ARGUMENTS - runs nvcc for libtool. Puts -Xcompiler before flags that only the host compiler knows.
nvcc=$1
shift
for argument; do
    shift
    case $argument in
    -fPIC | -fpic | -fPIE | -fpie) set -- "$@" "-Xcompiler=$argument" ;;
    *) set -- "$@" "$argument" ;;
    esac
done
exec "$nvcc" "$@"
