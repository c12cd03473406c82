#!/usr/bin/env python3
"""ranks_speed.py PROGRAM MODEL [--pairs N] [--prompt N] [--gen N] [--math MATH] - compares two ranks with one thread
each with one process that has two threads, on this machine. The runs alternate, in a different order for each pair.
Each run measures decode and prefill with `kvcull bench`, for the same model, prompt and steps. The table shows the
medians and quartiles of the pairs' speed ratios, ranks to process (above 1: ranks are faster), and the bytes and
messages that the ranks send per token. The column `computing` is the average number of ranks that compute at the same
time; 1 means no overlap. `kvcull mkmodel --shape llama-3.2-1b --type q8_0` makes a model."""
import argparse
import json
import os
import statistics
import subprocess
import sys

MPI = dict(OMPI_ALLOW_RUN_AS_ROOT='1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1', OMPI_MCA_hwloc_base_binding_policy='none',
           PRTE_MCA_hwloc_default_binding_policy='none', OMPI_MCA_rmaps_base_oversubscribe='1',
           PRTE_MCA_rmaps_default_mapping_policy=':oversubscribe', TMPDIR='/tmp')
WAYS = (None, 'tensor', 'pipeline')


def measure(args, way):
    words = ['mpirun', '-n', '2'] if way else []
    words += [args.program, 'bench', '-m', args.model, '--json', '-q', '--repeat', '1', '--prompt', str(args.prompt),
              '--chunk', str(args.chunk), '--gen', str(args.gen), '--math', args.math, '--threads', '1' if way else '2']
    done = subprocess.run(words + (['--ranks', way] if way else []), stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, check=False, env=dict(os.environ, **MPI))
    if done.returncode:
        print(f'ranks_speed: {" ".join(words)}: exit {done.returncode}: {done.stderr.strip()[:300]}', file=sys.stderr)
        sys.exit(1)
    found = json.loads(done.stdout)
    prefill, decode = found['prefill'][0], found['decode'][0]
    return {'prefill': (prefill['tokens_per_second'], prefill), 'decode': (1 / decode['step_seconds'], decode)}


def quartiles(values):
    return statistics.quantiles(values, n=4, method='inclusive') if len(values) > 1 else values * 3


def main():
    parser = argparse.ArgumentParser(description='compare two ranks of one thread with one process of two threads')
    parser.add_argument('program')
    parser.add_argument('model')
    parser.add_argument('--pairs', type=int, default=5)
    parser.add_argument('--prompt', type=int, default=128)
    parser.add_argument('--chunk', type=int, default=32)
    parser.add_argument('--gen', type=int, default=24)
    parser.add_argument('--math', default='int8')
    args = parser.parse_args()
    if args.pairs < 1:
        parser.error('--pairs: must be at least 1')
    runs = {way: [] for way in WAYS}
    load = os.getloadavg()[0]
    for pair in range(args.pairs):
        for i in range(len(WAYS)):
            way = WAYS[(i + pair) % len(WAYS)]
            runs[way].append(measure(args, way))
    print(f'{args.model}, {args.math}: prompt {args.prompt} in parts of {args.chunk}, {args.gen} steps, '
          f'{args.pairs} pairs; load {load:.1f} before, {os.getloadavg()[0]:.1f} after')
    print('\n| two ranks | of | tokens/s | one process | ratio: quartile | median | quartile | bytes/token '
          '| messages/token | computing |')
    print('|---|---|--:|--:|--:|--:|--:|--:|--:|--:|')
    for way in WAYS[1:]:
        for what in ('decode', 'prefill'):
            mine, one = ([run[what][0] for run in runs[w]] for w in (way, None))
            low, middle, high = quartiles([a / b for a, b in zip(mine, one)])
            sent = runs[way][0][what][1]
            at_once = statistics.median(run[what][1]['ranks_computing'] for run in runs[way])
            print(f'| {way} | {what} | {statistics.median(mine):.1f} | {statistics.median(one):.1f} | {low:.3f} | '
                  f'{middle:.3f} | {high:.3f} | {sent["sent_bytes_per_token"]:.0f} | '
                  f'{sent["sent_messages_per_token"]:.2f} | {at_once:.2f} |')


if __name__ == '__main__':
    main()
