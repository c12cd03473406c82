# trace_runs.sh - shared by the tests of traces: for each operation a run that uses it, as "OPERATION MODEL POLICY".
# The mutant of the operation must be the first difference that `kvcull trace compare` finds. Source lib.sh first.
#   trace_models       makes the models in $work
#   trace_each OPTIONS runs every line of $runs, and checks the operation that the comparison names
#
# The operations without a line: fma_loop (bench only) and entries (checks only).
runs='linear demo full
embed demo full
norm demo full
rope demo full
gated_silu demo full
add demo full
append demo full
attention demo full
scale caps full
hadamard rotated full
smooth_factors rotated full
smooth rotated full
centre rotated full
convolve delta full
delta_rule delta full
linear_int8 blocks full
quantize_rows blocks full
linear_int16 int16 full
quantize_rows_int16 int16 full
route experts full
gather experts full
expert_linear experts full
expert_sum experts full
expert_linear_int8 blocks-experts full
expert_linear_int16 int16-experts full
chunk_mass demo compactor:budget=66,sinks=2,recent=2,chunk=16
leverage_scores demo compactor:budget=66,sinks=2,recent=2,chunk=16
standard_mix demo compactor:budget=66,sinks=2,recent=2,chunk=16
view_append demo rocketkv-mt:budget=66+keyformer:budget=66
view_evict demo rocketkv-mt:budget=66+keyformer:budget=66
accumulate demo rocketkv-mt:budget=66+keyformer:budget=66
lag_scores demo lagkv:budget=66,sinks=2,lag=8
norm_shares demo cur:budget=66,chunk=8
mix_mean demo sparq:budget=66
value_sums demo sparq:budget=66
select_scores_reads demo sparq:budget=66
select_reads demo sparq:budget=66
select_scores demo hsa:budget=66,p=0.9
cut_reads demo hsa:budget=66,p=0.9
pages_update demo hsa:budget=66,p=0.9
series_scores demo triattention:budget=66,stats=drawn,every=4,heads=mean
keep_keys demo streaming:budget=66,positions=cache
rotate_keys demo streaming:budget=66,positions=cache
repeat_heads demo h2o:budget=66,per=head
gate_scores demo fastkvzip:budget=66,file=drawn
column_scores demo h2o:budget=66,per=head
window_moments demo cake:budget=66
scores_column demo cake:budget=66
mix_redundancy demo rkv:budget=66,window=8,every=4
ring_write demo rkv:budget=66,window=8,every=4
ring_fuse demo rkv:budget=66,window=8,every=4,pooling=avg
pool demo rkv:budget=66,window=8,every=4
expected_scores demo expected:budget=66
query_moments demo expected:budget=66
mean_weights demo cap:budget=66
output_norms demo criticalkv:budget=66,window=8
weigh_scores demo criticalkv:budget=66,window=8
merge_similar demo knorm:budget=66+merging
merge_values demo knorm:budget=66+merging
merge_following demo knorm:budget=66+cam:prompt=merge
prune_channels demo think
group_scores demo criticalkv:budget=66,window=8
window_mass demo criticalkv:budget=66,window=8
shares demo adakv:budget=66
drop demo dapq:budget=66,kernel=5
blend demo take:budget=66,chunk=64,probe=8
keep_ring demo morphkv:budget=66
entry_scores demo knorm:budget=66
keep demo snapkv:budget=66
identity demo snapkv:budget=66
evict demo snapkv:budget=66
relayout demo snapkv:budget=66'

# The bundled model, small models with experts and blocks of integers, and models of the golden data.
trace_models() {
    ok mkmodel --shape tiny-experts --type f32 -o "$work/experts.gguf" -q
    ok mkmodel --shape small --type q8_0 -o "$work/blocks.gguf" -q
    ok mkmodel --shape small-experts --type q8_0 -o "$work/blocks-experts.gguf" -q
    ok mkmodel --shape small-experts --type f16 -o "$work/int16-experts.gguf" -q
    awk 'BEGIN { for (i = 0; i < 300; i++) { x = (x * 37 + 11) % 251; printf "%s%d", i ? "," : "", 3 + x % 27 } }' \
        >"$work/tokens"
}
trace_model() {
    case $1 in
    demo | rotated | int16) echo "$demo" ;;
    caps) echo "$source/tests/data/golden/gemma2/model.gguf" ;;
    delta) echo "$source/tests/data/golden/qwen3-next/model.gguf" ;;
    *) echo "$work/$1.gguf" ;;
    esac
}

# traced FILE MODEL POLICY OPTIONS...: runs a prompt and decode steps with a trace. The entries of `rotated` are
# q4h, and int16* is computed in int16.
traced() {
    to=$1 model=$(trace_model "$2") policy=$3 types=f32 math=
    case $2 in rotated) types=q4h ;; int16*) math='--math int16' ;; esac
    shift 3
    # shellcheck disable=SC2086
    kv logits -m "$model" --tokens "@$work/tokens" --prompt 290 --kv "$policy" --trace "$to" -q --kv-type $types \
        $math "$@" >"$work/out" 2>"$work/err" </dev/null
}

# Checks that the first difference of the two traces is in the operation. A fused operation has its last part's name.
names() { # OPERATION POLICY
    case $1 in select_scores_reads) named=select_reads ;; keep_ring) named=keep ;; *) named=$1 ;; esac
    kv trace compare "$work/clean.trace" "$work/mutant.trace" >"$work/out" 2>"$work/err" </dev/null
    status=$?
    if [ $status = 1 ] && sed -n "1p" "$work/out" | grep -q "first difference: .* operation $named, "; then
        good
    else
        bad "exit $status; the first difference is not in $named of $2"
    fi
}

trace_each() {
    before=
    while read -r operation name policy; do
        if [ "$name $policy" != "$before" ]; then
            traced "$work/clean.trace" "$name" "$policy" "$@" || bad "no run of $policy on $name"
            before="$name $policy"
        fi
        KVCULL_INJECT=$operation traced "$work/mutant.trace" "$name" "$policy" "$@"
        names "$operation" "$policy"
    done <<END
$runs
END
}
