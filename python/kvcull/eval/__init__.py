"""kvcull.eval: runs benchmarks with any policy. Libraries and the benchmarks' own rules score the answers, and reports
have figures.

    python -m kvcull.eval list
    python -m kvcull.eval run longbench/hotpotqa -m MODEL --data LongBench --kv full --kv snapkv:budget=512 --length 8192
    python -m kvcull.eval report results.jsonl --out report.html

A task is a small class derived from `Task`; docs/how-to/evaluate.md shows one. `scores` has the scores of answers.
"""
from . import scores
from .data import Folder, Row, fill
from .prompts import Prompt, Prompter
from .results import Results, merged
from .run import Plan, Runner
from .summary import Cell, cells, tables
from .task import Question, Sample, Task

__all__ = ["Cell", "Folder", "Plan", "Prompt", "Prompter", "Question", "Results", "Row", "Runner", "Sample", "Task",
           "cells", "fill", "merged", "scores", "tables"]
