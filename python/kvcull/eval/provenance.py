"""Collects where results come from: command, version, commit, the model's hash, arithmetic, machine, date, seed."""
from __future__ import annotations

import datetime
import hashlib
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, Sequence

from .. import _find
from .._library import VERSION
from ..model import Model


def file_hash(path: "os.PathLike[str] | str") -> str:
    """Returns SHA-256 of a model: of its file, or of the names and contents of its folder's files, in order."""
    made = hashlib.sha256()
    root = Path(path)
    for file in sorted(one for one in root.iterdir() if one.is_file()) if root.is_dir() else [root]:
        if root.is_dir():
            made.update(file.name.encode() + b"\0")
        with open(file, "rb") as stream:
            while block := stream.read(1 << 20):
                made.update(block)
    return made.hexdigest()


def commit() -> str:
    """Returns the commit of the source tree that the package runs in; "" outside one."""
    tree = _find.source_tree()
    if tree is None or not (tree / ".git").exists():
        return ""
    done = subprocess.run(["git", "-C", str(tree), "describe", "--always", "--dirty", "--abbrev=12", "--exclude", "*"],
                          capture_output=True, text=True, check=False)
    return done.stdout.strip()


def processor() -> str:
    """Returns the processor's name."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith(("model name", "Model")))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def provenance(model: Model, seed: int, arguments: Sequence[str]) -> Dict[str, Any]:
    """Returns how results are made, for the results' file and the report's box."""
    return {"command": "python -m kvcull.eval " + " ".join(arguments), "version": VERSION, "commit": commit(),
            "model_hash": "sha256:" + file_hash(model.info.path), "backend": model.engine.backend,
            "machine": f"{processor()}, {platform.system()} {platform.machine()}",
            "python": f"{sys.version_info.major}.{sys.version_info.minor}.{sys.version_info.micro}",
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "seed": seed}


__all__ = ["commit", "file_hash", "processor", "provenance"]
