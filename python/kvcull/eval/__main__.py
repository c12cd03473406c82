"""python -m kvcull.eval list | run | report: benchmarks under any policy."""
from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from typing import List, Optional, Sequence, Tuple

from ..errors import InputError, KvcullError, UsageError
from ..model import Model
from . import provenance, summary, task
from .prompts import Prompter
from .results import Results, merged
from .run import SIDES, Plan, Runner


def _lengths(text: str) -> List[int]:
    if not all(one.isdigit() and int(one) >= 64 for one in text.split(",")):
        raise argparse.ArgumentTypeError(f"{text}: must be numbers of tokens from 64, such as 4096,8192")
    return [int(one) for one in text.split(",")]


def _count(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text}: must be a number from 0")
    return int(text)


class _Progress:
    """Shows lines about the progress: on a terminal every line, elsewhere one line every half minute."""

    def __init__(self) -> None:
        self.terminal, self.next = sys.stderr.isatty(), time.monotonic() + 30

    def __call__(self, line: str) -> None:
        if self.terminal:
            print("\r\x1b[K" + line, end="", file=sys.stderr)
        elif time.monotonic() >= self.next:
            print(line, file=sys.stderr, flush=True)
            self.next = time.monotonic() + 30

    def end(self) -> None:
        """Clears the line."""
        if self.terminal:
            print("\r\x1b[K", end="", file=sys.stderr)


def _bytes(text: str) -> int:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text}: must be a size such as 8G")
    return int(float(found.group(1)) * 1024 ** " KMGT".index(found.group(2) or " "))


def _shard(text: str) -> Tuple[int, int]:
    """Returns (index from 0, count) of I/N."""
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if not found or not 1 <= int(found.group(1)) <= int(found.group(2)):
        raise argparse.ArgumentTypeError(f"{text}: must be I/N with I from 1 to N, such as 3/8")
    return int(found.group(1)) - 1, int(found.group(2))


#: Variables in which MPI and Slurm say the number of a process and of all processes.
RANKS = (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS"))


def _rank() -> Tuple[int, int]:
    """Returns the number of this process among those that mpirun or srun started, and how many these are."""
    for rank, size in RANKS:
        if rank in os.environ and size in os.environ:
            return int(os.environ[rank]), int(os.environ[size])
    raise UsageError("--ranks data: no process of mpirun or srun; run it as `mpirun -n 4 python -m kvcull.eval run ...`")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m kvcull.eval", description="Benchmarks under any policy.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="list the tasks, and whether their files are there").add_argument(
        "--data", action="append", default=[], metavar="[GROUP=]FOLDER")
    run = commands.add_parser("run", help="run tasks with every policy on the same samples")
    run.add_argument("tasks", nargs="+", metavar="TASK", help="a task, a group, or a Python file with tasks")
    run.add_argument("-m", "--model", required=True, help="a GGUF file or a Hugging Face folder")
    run.add_argument("--kv", action="append", required=True, metavar="SPEC", help="a policy; several times")
    run.add_argument("--data", action="append", default=[], metavar="[GROUP=]FOLDER",
                     help="folder with the files; several times for several benchmarks")
    run.add_argument("--length", type=_lengths, default=[4096], metavar="N,..", help="most tokens of prompt and answer")
    run.add_argument("--samples", type=_count, default=0, metavar="N", help="samples of each task (default: all)")
    run.add_argument("--question", choices=["both", *SIDES], default="both", metavar="WHEN",
                     help="seen: text and question are one prompt; unseen: the question comes later; both")
    run.add_argument("--out", metavar="FILE", help="append every answer to this file as a line of JSON")
    run.add_argument("--resume", action="store_true", help="continue the file of --out")
    run.add_argument("--shard", type=_shard, metavar="I/N", help="run only every N-th sample, from the I-th on")
    run.add_argument("--ranks", choices=["data"], help="divide the samples among the processes of mpirun or srun")
    run.add_argument("--report", metavar="FILE.html", help="write the report with its figures")
    run.add_argument("--raw", action="store_true", help="use no chat template")
    run.add_argument("--template", metavar="NAME", help="a built-in chat template")
    run.add_argument("--template-vars", type=json.loads, metavar="JSON", help="variables for the template")
    run.add_argument("--date", help="date for the template, such as 2025-06-30")
    run.add_argument("--backend", help="cpu, ref, opencl[:N] or cuda[:N]")
    run.add_argument("--threads", type=_count, default=0, metavar="N")
    run.add_argument("--math", choices=["int8", "int16", "float", "fast"], default="int8")
    run.add_argument("--kv-type", default="f16", metavar="TYPE", help="type of keys and values, such as q4h")
    run.add_argument("--chunk", type=_count, default=0, metavar="N", help="rows of a prompt computed together")
    run.add_argument("--mem", type=_bytes, default=0, metavar="SIZE",
                     help="memory for sessions that run together, such as 8G (default: half of what is free)")
    run.add_argument("--alone", action="store_true", help="run policies one by one, which measures their times")
    run.add_argument("--show", type=_count, default=0, metavar="N", help="print the first N samples of each task")
    run.add_argument("--seed", type=int, default=0, help="seed of methods that draw at random")
    run.add_argument("-q", "--quiet", action="store_true", help="no progress")
    commands.add_parser("lm", add_help=False, help="lm-eval's command with the model kvcull: lm run --model kvcull ...")
    report = commands.add_parser("report", help="tables and figures of results")
    report.add_argument("files", nargs="+", metavar="RESULTS.jsonl")
    report.add_argument("--out", metavar="FILE.html", help="the report: one file without outside links")
    report.add_argument("--figures", metavar="FOLDER", help="each figure as SVG, PDF, CSV and LaTeX")
    return parser


def _list(folders: Sequence[str]) -> int:
    tasks = task.known()
    width = max(map(len, tasks))
    for one in tasks.values():
        there = ""
        if folders:
            try:
                next(iter(one.samples(task.folder_of(one, folders), 8192)))
                there = ": there"
            except KvcullError as error:
                there = f": {error}" if not isinstance(error, InputError) or "contain" not in str(error) else ": missing"
        print(f"{one.name:{width}}  {one.summary}\n{'':{width}}  files: {one.files}{there}")
    return 0


def _show(results: Results, page: Optional[str], figures: Optional[str]) -> None:
    print(summary.tables(results.records))
    if page or figures:
        from . import report
        report.write(results, page, figures)


def _writable(path: Optional[str]) -> None:
    folder = os.path.dirname(os.path.abspath(path)) if path else "."
    if path and not os.access(folder, os.W_OK):
        raise UsageError(f"{path}: its folder cannot be written to")


def _run(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    tasks = task.choose(options.tasks)
    _writable(options.report)
    if options.report:
        from . import report  # fails before hours of work if matplotlib is missing
        report.needed()
    shard, out = options.shard or (0, 1), options.out
    if options.ranks:
        if options.shard:
            raise UsageError("--shard: not with --ranks data, which divides the samples")
        shard = _rank()
        out = f"{out}.{shard[0] + 1}of{shard[1]}" if out else None
    if options.resume and not out:
        raise UsageError("--resume: needs --out FILE")
    plan = Plan(options.length, options.samples, SIDES if options.question == "both" else (options.question,), shard,
                options.mem, options.alone, options.show, options.kv_type, options.chunk, options.seed,
                {"seed": options.seed})
    results = Results()
    progress = None if options.quiet else _Progress()
    with Model(options.model, backend=options.backend, threads=options.threads, math=options.math) as model:
        for policy in options.kv:
            model.engine.check(policy)
        prompter = Prompter(model, options.raw, options.template, options.template_vars, options.date)
        runner = Runner(model, prompter, options.kv, results, plan, progress)
        try:
            if out:
                results.append_to(out, options.resume)
            results.add_run(provenance.provenance(model, options.seed, arguments))
            for one in tasks:
                runner.run(one, task.folder_of(one, options.data))
        finally:
            results.close()
            if progress:
                progress.end()
    _show(results, options.report, None)
    if runner.prompt_tokens:
        print(f"\nPrompts: {runner.computed_tokens} tokens computed; {runner.prompt_tokens} in separate runs")
    return 0


def _command(arguments: Sequence[str]) -> int:
    if list(arguments[:1]) == ["lm"]:
        from . import lm
        return lm.main(arguments[1:])
    options = _parser().parse_args(arguments)
    if options.command == "list":
        return _list(options.data)
    if options.command == "run":
        return _run(options, arguments)
    _writable(options.out)
    _show(merged(options.files), options.out, options.figures)
    return 0


def main(arguments: Sequence[str]) -> int:
    """Returns the exit status: 0 for success, 1 for an error, 2 for wrong arguments, 130 after Ctrl-C."""
    try:
        status = _command(arguments)
        sys.stdout.flush()
        return status
    except (KvcullError, ImportError) as error:
        print(f"kvcull.eval: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    except BrokenPipeError:  # the program that reads the output, such as head, has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        kept = any(argument.split("=")[0] == "--out" for argument in arguments)
        print(f"kvcull.eval: interrupted{'; --resume continues' if kept else ''}", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
