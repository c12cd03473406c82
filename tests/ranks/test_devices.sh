#!/bin/sh
# Ranks with an emulated CUDA device each (tests/cuda): results with NCCL (emulated over MPI), with an MPI that accepts
# device addresses, and through host memory are bit-identical to ref in one process.
. "${top_srcdir:-.}/tests/ranks/lib.sh"
each=$build/tests/cuda/emulated
[ -x "$each" ] || { echo 'the emulated device is not built'; exit 77; }
if grep -q '^flags' /proc/cpuinfo 2>/dev/null && ! grep -qw fma /proc/cpuinfo; then
    echo 'the emulation is compiled with fused multiply-adds'
    exit 77
fi
unset KVCULL_RANKS_DEVICES KVCULL_FAKE_NCCL
KVCULL_FAKE_TELL=$work/tell
export KVCULL_FAKE_TELL

told() { awk -v what="$1" '$1 == what { print $2 }' "$work/tell.${2-0}"; }
# equal DEVICES RANKS OPTIONS...: results are bit-identical to ref's, and nothing remains allocated on the device.
equal() {
    KVCULL_FAKE_DEVICES=$1
    export KVCULL_FAKE_DEVICES
    shift
    count=$1
    shift
    same verify "$count" verify --backend cuda --threads 1 --only methods --prompt 30 --gen 4 --json -q "$@"
    that "$*: equal" [ "$(json equal)" = true ]
    for rank in 0 $((count - 1)); do
        that "rank $rank: nothing is left" [ "$(told allocations $rank)$(told communicators $rank)" = 00 ]
    done
}
by() { # WAY: the transport that rows used in the last run
    case $1 in
    nccl) that 'by NCCL' [ "$(told broadcasts)" -gt 100 ] ;;
    *) that 'not by NCCL' [ "$(told broadcasts)" -lt 10 ] ;;
    esac
}

# ---- tensor. A single process copies only logits, choices and status words from the device.
equal 1 1 --kv full
one=$(told from_device)
equal 3 3 --kv full
by nccl
that 'no row goes through the host' [ "$(told from_device 1)" -le $((one + 2)) ]
equal 2 2 --kv cake:budget=24,window=8 --kv adakv:budget=24,window=8 --kv fastkv:budget=24,window=8
by nccl
# ranks on one device; a communicator that one rank cannot create; a different way on request
equal 1 2 --kv full
by host
that 'rows go through the host' [ "$(told from_device)" -gt $((one + 50)) ]
KVCULL_FAKE_NCCL=fails
export KVCULL_FAKE_NCCL
equal 2 2 --kv full
by host
unset KVCULL_FAKE_NCCL
KVCULL_RANKS_DEVICES=mpi
export KVCULL_RANKS_DEVICES
equal 1 3 --kv full
by mpi
that 'by MPI no row goes through the host' [ "$(told from_device 1)" -le $((one + 2)) ]
unset KVCULL_RANKS_DEVICES

# ---- both modes: each has communicators of its own
equal 4 4 --kv full --kv cake:budget=24,window=8 --ranks tensor=2,pipeline=2
by nccl

# ---- pipeline, with sends that wait for their receivers
KVCULL_RANKS=synchronous
export KVCULL_RANKS
equal 3 3 --kv full --kv fastkv:budget=24,window=8 --ranks pipeline
that 'rows by NCCL' [ "$(told sends 1)" -gt 10 ]
that 'as many come as go' [ "$(told sends 0)" = "$(told receives 1)" ]
unset KVCULL_RANKS
KVCULL_RANKS_DEVICES=mpi
export KVCULL_RANKS_DEVICES
equal 1 3 --kv full --ranks pipeline
unset KVCULL_RANKS_DEVICES

# ---- a device is lost in the middle: one line, and all ranks end
for way in nccl mpi host; do
    KVCULL_FAKE_DEVICES=2 KVCULL_FAKE_LOSE=800 KVCULL_RANKS_DEVICES=$way
    export KVCULL_FAKE_DEVICES KVCULL_FAKE_LOSE KVCULL_RANKS_DEVICES
    on 2 run -m "$demo" --backend cuda -p 'the magic number' -n 20 --temp 0 --ignore-eos
    status=$?
    that "$way: exit $status" [ $status = 4 ]
    one_line 'rank 1: cuda:1 .*illegal memory access' "$way"
done
unset KVCULL_FAKE_LOSE KVCULL_RANKS_DEVICES

# ---- experts; rows in eight bits; three ranks, one without a head of its own; what is printed about the way
equal 2 2 --kv full -m "$source/tests/data/golden/qwen3-moe"
by nccl
for shape in small small-experts; do
    ok mkmodel --shape $shape --type q8_0 -o "$work/$shape.gguf" -q
    equal 3 3 --kv full -m "$work/$shape.gguf" --math int8
    by nccl
    equal 1 2 --kv full -m "$work/$shape.gguf" --math int8
    by host
done
KVCULL_FAKE_DEVICES=2
same bench 2 bench -m "$demo" --backend cuda --prompt 8 --gen 2 --repeat 1
has 'cuda:0 (emulated.*), rows by NCCL'
KVCULL_FAKE_DEVICES=1
same bench 2 bench -m "$demo" --backend cuda --prompt 8 --gen 2 --repeat 1
has 'cuda:0 (emulated.*), rows by the host'
finish
