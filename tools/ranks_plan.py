#!/usr/bin/env python3
"""ranks_plan.py plan (--shape NAME | --geometry L,h,H,G,d,f,V | --model MODEL --program KVCULL) [OPTIONS] ranks_plan.py
check KVCULL MODEL [--most N]

Computes the bytes and messages that processes sharing a model (docs/explanation/parallel-runs.md) send each other,
and predicts the times of a decoded token and of a prompt from latency and bandwidth. `plan` prints them for --ranks
tensor, pipeline and both, from 1 to 64 ranks, and the number of ranks beyond which more do not help. `check` runs
`kvcull bench` on 2 to 8 ranks. It exits with 1 unless bytes and messages equal the predicted ones. Then it fits the
latency and prints measured and predicted times.

The counts follow the code for the policy `full` and models with dense feed-forward networks: the messages of a call
(core/ranks/ranks.c), the gathers of a layer (core/engine/runner.c), the lengths of the lists (core/engine/pass.c),
rows and outcomes of a pipeline (core/engine/pipeline.c), the caller's progress (core/engine/prompt.c).

The model: a gather of b bytes among T ranks takes latency + (T - 1) (overhead + b / T / bandwidth). A message from
one rank to another takes latency + overhead + bytes / bandwidth. A message to all R ranks takes this time for each
of log2 R rounds. A rank's time is the larger of the time to read its weights and entries and the time of its
arithmetic. Pipeline stages overlap: different passes and groups are in different stages at the same time."""
import argparse
import json
import math
import os
import subprocess
import sys
from collections import namedtuple

Model = namedtuple('Model', 'layers hidden heads kv_heads head_size feed_forward vocab math', defaults=['float'])
GEOMETRY = Model._fields[:-1]
MPI = dict(OMPI_ALLOW_RUN_AS_ROOT='1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1', OMPI_MCA_hwloc_base_binding_policy='none',
           PRTE_MCA_hwloc_default_binding_policy='none', OMPI_MCA_rmaps_base_oversubscribe='1',
           PRTE_MCA_rmaps_default_mapping_policy=':oversubscribe', TMPDIR='/tmp')  # lets Open MPI run as root and on few cores
SHAPES = {'llama-3.2-1b': Model(16, 2048, 32, 8, 64, 8192, 128256),
          'llama-3.1-8b': Model(32, 4096, 32, 8, 128, 14336, 128256),
          'llama-3.1-70b': Model(80, 8192, 64, 8, 128, 28672, 128256)}
FLOAT, WORD, LENGTH, HEADER, OUTCOME, RETURN = 4, 8, 8, 16, 256, 16  # bytes, as in core/ranks and core/engine
LOGIT_ROWS, ROWS_AS_WEIGHTS = 64, 16                                 # core/engine/runner.h, pipeline.c
BLOCK, INT16_BLOCK, MANY_BLOCKS, ROWS_QUANTIZED = 32, 256, 32, 16  # core/ranks/split.[ch], core/engine/sharded.c
MEMORY = 1e10  # bytes per second between ranks of one machine
MANY = 70  # sessions of check's larger steps: several pipeline groups, and logits in two pieces
WHOLE_ATTENTION = ('olmo2', 'olmo3', 'qwen3_next', 'qwen3next', 'qwen3_5')


def fail(text):
    print('ranks_plan: ' + text, file=sys.stderr)
    sys.exit(2)


def shared_out(count, ranks):
    """Returns each rank's part (core/ranks/split.c)."""
    def begin(r):
        return r + ((count - ranks) * r + ranks // 2) // ranks
    return [begin(r + 1) - begin(r) for r in range(ranks)]


def layers_of(model, pipeline):
    """Returns the number of layers in each stage."""
    return shared_out(model.layers, pipeline)


def pieces(count, size):
    return [min(size, count - at) for at in range(0, count, size)]


def gathered(model, tensor, rows):
    """Returns the bytes of each gather of a layer. If every rank has whole blocks, rows for int8 layers are three
    gathers: quants, scales and sums. Rows for int16 layers are two: quants and scales."""
    if tensor == 1:
        return []
    block = {'int8': BLOCK, 'int16': INT16_BLOCK}.get(model.math)

    def gather(n, unit, units):
        if not block or rows < ROWS_QUANTIZED or any(unit * part % block for part in units):
            return [FLOAT * rows * n]
        return [rows * n, rows * n // 8, rows * n // 4] if model.math == 'int8' else [rows * n * 2, rows * n // 64]

    def outputs(n):
        unit = BLOCK if n % BLOCK == 0 and n // BLOCK >= MANY_BLOCKS * tensor else 1
        return gather(n, unit, shared_out(n // unit, tensor)) if n >= 2 * tensor else []

    def floats(n):
        return [FLOAT * rows * n] if n >= 2 * tensor else []
    wide, heads = model.heads * model.head_size, model.kv_heads
    return (gather(wide, wide // heads, shared_out(heads, min(tensor, heads))) + floats(model.hidden) +
            outputs(model.feed_forward) + floats(model.hidden))


def groups_of(rows, pipeline):
    """Returns the rows in each group of a decode step (kvc_pipeline_groups)."""
    def units(g):
        return (pipeline + g - 1) * (ROWS_AS_WEIGHTS + -(-rows // g))
    groups = min(range(1, rows + 1), key=units) if pipeline > 1 else 1
    return [rows * (g + 1) // groups - rows * g // groups for g in range(groups)]


class Sent:
    """Bytes and messages of all ranks together."""
    def __init__(self):
        self.bytes = self.messages = 0

    def to_others(self, ranks, size, times=1):
        self.messages += times * (ranks - 1)
        self.bytes += times * (ranks - 1) * size

    def gather(self, ranks, size, times=1):
        """size: bytes from all ranks together."""
        self.messages += times * ranks * (ranks - 1)
        self.bytes += times * (ranks - 1) * size

    def call(self, ranks, size):
        self.to_others(ranks, LENGTH)
        self.to_others(ranks, size)
        self.gather(ranks, ranks * OUTCOME)

    def layer(self, model, tensor, rows):
        for size in gathered(model, tensor, rows):
            self.gather(tensor, size)

    def flow(self, model, tensor, pipeline, rows):
        """Counts a group of rows passing through the stages, and its outcome. Every rank position in a stage does this."""
        self.to_others(pipeline, HEADER, 2 * tensor)
        self.to_others(pipeline, FLOAT * rows * model.hidden, tensor)

    def logits(self, model, tensor, pipeline, rows):
        for some in pieces(rows, LOGIT_ROWS):
            size = FLOAT * some * model.vocab
            if tensor > 1 and model.vocab >= 2 * tensor:
                self.gather(tensor, size)
            self.to_others(pipeline, size, tensor)


def padded(size):
    return -(-size // WORD) * WORD


def sent_by_step(model, tensor, pipeline, batch):
    sent, ranks = Sent(), tensor * pipeline
    if ranks == 1:
        return sent
    sent.call(ranks, (5 + batch) * WORD + padded(4 * batch))
    for rows in groups_of(batch, pipeline):
        for _ in range(model.layers):
            sent.layer(model, tensor, rows)
        sent.flow(model, tensor, pipeline, rows)
    sent.logits(model, tensor, pipeline, batch)
    return sent


def sent_by_prompt(model, tensor, pipeline, prompt, chunk):
    sent, ranks = Sent(), tensor * pipeline
    if ranks == 1:
        return sent
    sent.call(ranks, 5 * WORD + padded(4 * prompt))
    for rows in pieces(prompt, chunk):
        for _ in range(model.layers):
            sent.layer(model, tensor, rows)
        if pipeline > 1:
            sent.flow(model, tensor, pipeline, rows)
        for _ in range(model.layers if pipeline == 1 else 1):  # progress: after each part of a layer, or each pass
            sent.to_others(ranks, LENGTH)
            sent.to_others(ranks, RETURN)
    if tensor > 1:  # list lengths: at the beginning of the prompt, and before and after each layer's stage
        sent.gather(tensor, tensor * WORD * model.layers, pipeline)
        for layer in range(model.layers):
            sent.gather(tensor, tensor * WORD)
            sent.gather(tensor, tensor * WORD * (layer + 1))
    return sent


# ---- times ----

class Cost(namedtuple('Cost', 'work latencies overheads bytes')):
    """Seconds of work, and numbers of sequential latencies, overheads and bytes."""
    def __add__(self, other):
        return Cost(*(a + b for a, b in zip(self, other)))

    def __mul__(self, factor):
        return Cost(*(a * factor for a in self))

    def seconds(self, net):
        return self.work + self.latencies * net.latency + self.overheads * net.overhead + self.bytes / net.bandwidth


NOTHING = Cost(0, 0, 0, 0)
Network = namedtuple('Network', 'latency overhead bandwidth')
Machine = namedtuple('Machine', 'bandwidth flops weight_bytes cores')  # cores of all ranks together


def gather(ranks, size):
    return Cost(0, 1, ranks - 1, size * (ranks - 1) / ranks) if ranks > 1 else NOTHING


def to_others(ranks, size):
    rounds = math.ceil(math.log2(ranks))
    return Cost(0, rounds, rounds, rounds * size)


def call(ranks, size):
    return to_others(ranks, LENGTH) + to_others(ranks, size) + gather(ranks, ranks * OUTCOME)


def work(machine, tensor, weights, flops, read):
    crowd = max(1, tensor / machine.cores) if machine.cores else 1
    reading = (weights * machine.weight_bytes + read) / machine.bandwidth
    return Cost(crowd * max(reading, flops / machine.flops), 0, 0, 0)


def layer_cost(model, machine, tensor, rows, context, batch):
    """Returns the cost of a layer for some rows, on the rank with the most work. context: entries that a row attends
    to. batch: caches."""
    heads = max(1, -(-model.kv_heads // tensor)) / model.kv_heads
    def share(n):
        return -(-n // tensor) / n if n >= 2 * tensor else 1
    wide, small = model.heads * model.head_size, model.kv_heads * model.head_size
    weights = model.hidden * (heads * (wide + 2 * small) + share(model.hidden) * (wide + model.feed_forward) +
                              2 * share(model.feed_forward) * model.feed_forward)
    cost = work(machine, tensor, weights, rows * (2 * weights + 4 * context * wide * heads),
                batch * context * 2 * small * 2 * heads)  # two bytes per element
    for size in gathered(model, tensor, rows):
        cost += gather(tensor, size)
    return cost


def flow(model, machine, tensor, pipeline, groups, layer):
    """Returns the cost of groups passing through the stages. Each group passes all stages; further groups wait for the
    slowest stage. layer: a layer's cost for a group's rows."""
    slowest = max(layers_of(model, pipeline))
    hop = Cost(0, 1, 2, HEADER + FLOAT * groups[0] * model.hidden)
    back = Cost(0, 1, 1, HEADER)
    cost = layer(groups[0]) * model.layers + (hop * (pipeline - 1) + back if pipeline > 1 else NOTHING)
    for rows in groups[1:]:
        cost += layer(rows) * slowest
    return cost


def step_cost(model, machine, tensor, pipeline, batch, context):
    ranks = tensor * pipeline
    cost = flow(model, machine, tensor, pipeline, groups_of(batch, pipeline),
                lambda rows: layer_cost(model, machine, tensor, rows, context, rows))
    share = -(-model.vocab // tensor)
    size = FLOAT * batch * model.vocab
    cost += work(machine, tensor, share * model.hidden, batch * 2 * share * model.hidden, 0)
    return cost + gather(tensor, size) + to_others(pipeline, size) + call(ranks, (5 + batch) * WORD)


def prompt_cost(model, machine, tensor, pipeline, prompt, chunk):
    """Returns a prompt's cost. Without a pipeline, parts of a prompt go through each layer in sequence: the same
    arithmetic in another order."""
    passes = pieces(prompt, chunk)
    cost = flow(model, machine, tensor, pipeline, passes,
                lambda rows: layer_cost(model, machine, tensor, rows, prompt / 2, 1))
    ranks = tensor * pipeline
    told = to_others(ranks, LENGTH) + to_others(ranks, RETURN)
    cost += told * (len(passes) * (model.layers if pipeline == 1 else 1))
    if tensor > 1:
        cost += Cost(0, 1, tensor - 1, 0) * (2 * max(layers_of(model, pipeline)) + 1)
    return cost + call(ranks, 5 * WORD + FLOAT * prompt)


# ---- plan ----

def ways(model, ranks):
    """Returns lists of [T, P] for tensor, pipeline and both. The caller takes the fastest of each list."""
    both = [(t, ranks // t) for t in range(2, ranks) if ranks % t == 0]
    return {'tensor': [(ranks, 1)], 'pipeline': [(1, ranks)] if ranks <= model.layers else [],
            'both': [(t, p) for t, p in both if p <= model.layers]}


def short(number, units):
    for unit in units[:-1]:
        if number < 999.5:
            return f'{number:.3g} {unit}'
        number /= 1000
    return f'{number:.3g} {units[-1]}'


def size(number):
    return short(number, ['B', 'KB', 'MB', 'GB'])


def time(seconds):
    return short(seconds * 1e6, ['us', 'ms', 's'])


def plan(model, args, title):
    machine = Machine(args.memory * 1e9, args.flops * 1e12, args.weight_bytes, None)
    net = Network(args.latency * 1e-6, args.overhead * 1e-6, args.network * 1e9)
    rows, most = {}, max(args.ranks)

    def times(t, p):
        return (step_cost(model, machine, t, p, args.batch, args.context).seconds(net),
                prompt_cost(model, machine, t, p, args.prompt, args.chunk).seconds(net))
    one = times(1, 1)
    for r in range(1, most + 1):
        for way, splits in ways(model, r).items():
            if splits and (r > 1 or way == 'tensor'):
                best = min(splits, key=lambda s: times(*s)[0])
                rows[way, r] = best, times(*best), min((times(*s)[1], s) for s in splits)
                if r == 1:
                    rows['pipeline', 1] = rows['both', 1] = rows[way, 1]
    print(f'{title}: {args.weight_bytes:g} bytes a weight, {args.batch} session{"s" * (args.batch > 1)}, context '
          f'{args.context}, prompt {args.prompt}.')
    print(f'Network: {args.latency:g} us, {args.overhead:g} us a message for its sender, {args.network:g} GB/s. '
          f'A rank: {args.memory:g} GB/s, {args.flops:g} TFLOP/s.\n')
    print('| way | ranks | T x P | bytes/token | bytes/layer | messages/token | messages/layer | token | speedup '
          '| prompt | speedup |')
    print('|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|')
    for way in ('tensor', 'pipeline', 'both'):
        for r in args.ranks:
            if (way, r) not in rows or (r == 1 and way != 'tensor'):
                continue
            (t, p), (token, prompt), _ = rows[way, r]
            step, layer = sent_by_step(model, t, p, args.batch), Sent()
            layer.layer(model, t, 1)
            print(f'| {way if r > 1 else "one"} | {r} | {t} x {p} | {size(step.bytes / args.batch)} | '
                  f'{size(layer.bytes)} | {step.messages / args.batch:.0f} | {layer.messages} | {time(token)} | '
                  f'{one[0] / token:.2f} | {time(prompt)} | {one[1] / prompt:.2f} |')
    print()
    for what, pick in (('a token', lambda row: (row[1][0], row[0])), ('a prompt', lambda row: row[2])):
        ends = {}
        for way in ('tensor', 'pipeline', 'both'):
            counts = [r for r in range(1, most + 1) if (way, r) in rows]
            ends[way] = min(counts, key=lambda r: (pick(rows[way, r])[0], r))
        best = min(ends, key=lambda way: pick(rows[way, ends[way]])[0])
        print(f'{what.capitalize()} is fastest with ' + ', '.join(
            f'{way} at {r} rank{"s" * (r > 1)} ({pick(rows[way, r])[1][0]} x {pick(rows[way, r])[1][1]}: '
            f'{time(pick(rows[way, r])[0])})' for way, r in ends.items()) +
            f': best is {best if ends[best] > 1 else "one rank"}' +
            (', and more ranks than that do not pay.' if ends[best] < most else
             f', up to the {most} that were looked at.'))


# ---- check ----

def run(words, **more):
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, **more)
    except (OSError, subprocess.TimeoutExpired) as error:
        fail(f'{words[0]}: {error}')
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.startswith('kvcull')] or done.stderr.splitlines()
        fail(f'{" ".join(words)}: exit {done.returncode}: {said[0] if said else "no message"}')
    return json.loads(done.stdout)


def read_model(program, path, math_words):
    """Returns the model and the bytes per weight that a step reads."""
    info = run([program, 'info', path, '--json'] + math_words)
    if info['experts'] or info['recurrent_layers'] or info['architecture'].startswith(WHOLE_ATTENTION):
        fail(f'{path}: experts, delta nets and attention that is whole on every rank are not counted here; '
             'a dense model is')
    read = info['packed_bytes'] or info['weight_bytes']
    return Model(*(info[name] for name in GEOMETRY), info['math']), read / info['parameters']


def words_of_math(args):
    return ['--math', args.math] if args.math else []


def bench(program, model, ranks, way, args):
    words = ['mpirun', '-n', str(ranks)] if ranks > 1 else []
    words += [program, 'bench', '-m', model, '--json', '-q', '--threads', '1', '--repeat', '3',
              '--prompt', str(args.prompt), '--chunk', str(args.chunk), '--gen', str(args.gen), '--batch', f'1,{MANY}']
    words += words_of_math(args)
    if ranks > 1:
        words += ['--ranks', way]
    found = run(words, timeout=300, env=dict(os.environ, **MPI))
    return found['prefill'][0], found['decode']


def fit(runs):
    """Fits latency and overhead: minimizes the sum of |log(predicted / measured)|, which disturbed runs change little.
    runs: [measured seconds, Cost]. Searches in steps of 25 %."""
    some = [0] + [1e-7 * 1.25 ** k for k in range(60)]
    return min((Network(latency, overhead, MEMORY) for latency in some for overhead in some),
               key=lambda net: sum(abs(math.log(cost.seconds(net) / seconds)) for seconds, cost in runs))


def check(args):
    model, weight_bytes = read_model(args.program, args.model, words_of_math(args))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count()
    prefill, decode = bench(args.program, args.model, 1, None, args)
    one = {'prompt': prefill['best_seconds'], 1: decode[0]['step_seconds'], MANY: decode[1]['step_seconds']}
    splits = [(t, 1) for t in range(2, args.most + 1)] + [(1, p) for p in range(2, min(args.most, model.layers) + 1)]
    splits += [(t, p) for t in range(2, args.most) for p in range(2, model.layers + 1) if t * p <= args.most]
    wrong, runs = 0, []

    def cost(t, p, what):
        """Returns the predicted cost. Compute time is that of one rank, divided among the ranks; ranks beyond the cores
        wait for others."""
        machine = Machine(1e9, 1e9, weight_bytes, cores)
        def of(t, p):
            return (prompt_cost(model, machine, t, p, args.prompt, args.chunk) if what == 'prompt'
                    else step_cost(model, machine, t, p, what, args.prompt))
        found = of(t, p)
        return found._replace(work=found.work / of(1, 1).work * one[what])
    for t, p in splits:
        way = 'tensor' if p == 1 else 'pipeline' if t == 1 else f'tensor={t},pipeline={p}'
        prefill, decode = bench(args.program, args.model, t * p, way, args)
        cases = [('prompt', prefill, prefill['best_seconds'], sent_by_prompt(model, t, p, args.prompt, args.chunk),
                  args.prompt)]
        cases += [(step['batch'], step, step['step_seconds'], sent_by_step(model, t, p, step['batch']),
                   step['batch']) for step in decode]
        for what, found, seconds, sent, tokens in cases:
            counted = [round(found[f'sent_{k}_per_token'] * tokens, 2) for k in ('bytes', 'messages')]
            equal = [abs(a - b) < 1e-6 * b + 0.01 for a, b in zip(counted, (sent.bytes, sent.messages))]
            wrong += not all(equal)
            runs.append((way, t, p, what, counted, sent, all(equal), seconds, cost(t, p, what)))
    fitted = {}
    for crowded in (False, True):
        steps = [(seconds, c) for _, t, p, what, _, _, _, seconds, c in runs
                 if what == 1 and (t * p > cores) == crowded]
        fitted[crowded] = fit(steps) if steps else None
    print(f'{args.model} on {cores} cores, {args.prompt} tokens of prompt in parts of {args.chunk}; load '
          f'{os.getloadavg()[0]:.1f} at the end. One rank: prompt {time(one["prompt"])}, step {time(one[1])}.')
    for crowded, net in fitted.items():
        if net:
            print(f'Fitted to steps of one session, {"more ranks than" if crowded else "at most as many ranks as"} '
                  f'cores: latency {net.latency * 1e6:.3g} us, overhead {net.overhead * 1e6:.3g} us. The others are '
                  'predicted from these.')
    print('\n| ranks | of | bytes | counted | messages | counted | equal | measured | predicted | error |')
    print('|---|---|--:|--:|--:|--:|---|--:|--:|--:|')
    for way, t, p, what, counted, sent, equal, seconds, c in runs:
        predicted = c.seconds(fitted[t * p > cores])
        name = what if what == 'prompt' else f'step of {what}'
        print(f'| {t * p} {way} | {name} | {counted[0]:.0f} | {sent.bytes} | '
              f'{counted[1]:.0f} | {sent.messages} | {"yes" if equal else "NO"} | {time(seconds)} | '
              f'{time(predicted)} | {(predicted / seconds - 1) * 100:+.0f}% |')
    print(f'\n{len(runs)} compared, {wrong} differ')
    return 1 if wrong else 0


class Parser(argparse.ArgumentParser):
    def error(self, message):
        fail(message)


def numbers(text):
    return [positive(part) for part in text.split(',')]


def positive(text):
    if not text.isdigit() or not 1 <= int(text) <= 2 ** 31:
        raise argparse.ArgumentTypeError(f"'{text}': must be a number from 1 up")
    return int(text)


def quantity(text):
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"'{text}': must be a number above 0")
    return value


def main():
    parser = Parser(prog='ranks_plan', description='predicts what ranks send each other, and the times')
    commands = parser.add_subparsers(dest='command', required=True, parser_class=Parser)
    p = commands.add_parser('plan', help='tables for up to 64 ranks')
    which = p.add_mutually_exclusive_group(required=True)
    which.add_argument('--shape', choices=sorted(SHAPES))
    which.add_argument('--geometry', type=numbers,
                       help='layers, hidden, heads, KV heads, head size, feed-forward, vocab')
    which.add_argument('--model')
    p.add_argument('--program', default='kvcull', help='the kvcull program, which describes --model')
    p.add_argument('--math', choices=('float', 'int8', 'int16'), help='arithmetic of --model')
    p.add_argument('--ranks', type=numbers, default=[1, 2, 4, 8, 16, 32, 64])
    p.add_argument('--weight-bytes', type=quantity, help='bytes per weight (1.0625 for q8_0, or those of --model)')
    p.add_argument('--latency', type=quantity, default=20, help='latency of a message, us')
    p.add_argument('--overhead', type=quantity, default=2, help='time that a message costs its sender, us')
    p.add_argument('--network', type=quantity, default=1.25, help='network bandwidth of a rank, GB/s')
    p.add_argument('--memory', type=quantity, default=100, help='memory bandwidth of a rank, GB/s')
    p.add_argument('--flops', type=quantity, default=1, help='speed of a rank, TFLOP/s')
    p.add_argument('--batch', type=positive, default=1)
    p.add_argument('--context', type=positive, default=4096)
    p.add_argument('--prompt', type=positive, default=4096)
    p.add_argument('--chunk', type=positive, default=512)
    c = commands.add_parser('check', help='compare with runs of kvcull bench')
    c.add_argument('program')
    c.add_argument('model')
    c.add_argument('--math', choices=('float', 'int8', 'int16'), help='default: that of the program')
    c.add_argument('--most', type=positive, default=8, help='maximum number of ranks')
    c.add_argument('--prompt', type=positive, default=40)
    c.add_argument('--chunk', type=positive, default=16)
    c.add_argument('--gen', type=positive, default=16)
    args = parser.parse_args()
    if args.command == 'check':
        return check(args)
    if args.shape:
        model, title = SHAPES[args.shape], args.shape
    elif args.geometry:
        if len(args.geometry) != len(GEOMETRY):
            fail(f'--geometry: {len(args.geometry)} numbers; must be {len(GEOMETRY)}: {", ".join(GEOMETRY)}')
        model, title = Model(*args.geometry), 'A model'
    else:
        (model, own), title = read_model(args.program, args.model, words_of_math(args)), args.model
        args.weight_bytes = args.weight_bytes or own
    if model.heads % model.kv_heads:
        fail(f'{model.heads} heads of {model.kv_heads} KV heads: the second must divide the first')
    args.weight_bytes = args.weight_bytes or 1.0625
    if not args.model:
        model = model._replace(math='int8' if args.weight_bytes < 2 else 'float')
    plan(model, args, title)
    return 0


if __name__ == '__main__':
    sys.exit(main())
