#!/bin/sh
# nvcc.sh NVCC ARGUMENTS - nvcc for libtool: flags that only the host compiler knows are passed on to it.
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
