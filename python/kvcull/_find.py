"""Finds the library and its headers, for setup.py and for a package used from the source tree.

It looks, in this order, at the environment, at pkg-config, and for a build in the source tree. The environment variable
KVCULL_LIBRARY is the library's file, and KVCULL_INCLUDE the folder of kvcull.h. The headers are always those with which
the library was built.
"""
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple, Optional

#: The library's installed file name, and the name by which programs load it.
FILES = ("libkvcull.dylib", "libkvcull.0.dylib") if sys.platform == "darwin" else ("libkvcull.so", "libkvcull.so.0")


class Found(NamedTuple):
    """A library and the folder of its headers. in_tree: the library was built in the source tree and is not
    installed."""

    library: Path
    include: Path
    in_tree: bool


def source_tree() -> Optional[Path]:
    """Returns the source tree that contains this file. None: the package is installed."""
    tree = Path(__file__).resolve().parents[2]
    return tree if (tree / "include" / "kvcull.h").is_file() else None


def _file_in(folder):
    return next((Path(folder) / name for name in FILES if (Path(folder) / name).exists()), None)


def _environment(tree):
    library = os.environ.get("KVCULL_LIBRARY")
    if not library:
        return None
    path = Path(library).resolve()
    if not path.is_file():
        raise FileNotFoundError(f"KVCULL_LIBRARY={library}: no such file; it must be the file of libkvcull")
    # for PREFIX/lib/libkvcull.so and PREFIX/lib/MACHINE/libkvcull.so; a build in the tree uses the tree's headers
    folders = [os.environ["KVCULL_INCLUDE"]] if os.environ.get("KVCULL_INCLUDE") else []
    folders += [path.parents[1] / "include", path.parents[min(2, len(path.parents) - 1)] / "include"]
    folders += [tree / "include"] if tree else []
    for folder in folders:
        if (Path(folder) / "kvcull.h").is_file():
            return Found(path, Path(folder), tree is not None and path.is_relative_to(tree))
    raise FileNotFoundError(f"{library}: its headers are not beside it; KVCULL_INCLUDE must be the folder of kvcull.h")


def _pkg_config():
    values = []
    for variable in ("libdir", "includedir"):
        try:
            values.append(subprocess.run(["pkg-config", f"--variable={variable}", "kvcull"], check=True, text=True,
                                         capture_output=True).stdout.strip())
        except (OSError, subprocess.CalledProcessError):
            return None
    library = _file_in(values[0])
    return Found(library, Path(values[1]), False) if library and (Path(values[1]) / "kvcull.h").is_file() else None


def _tree_build(tree):
    library = _file_in(tree / "build" / ".libs") if tree else None
    return Found(library, tree / "include", True) if library else None


def find() -> Optional[Found]:
    """Returns the library to use, or None. Raises FileNotFoundError if the environment names a missing file."""
    tree = source_tree()
    return _environment(tree) or _pkg_config() or _tree_build(tree)


def build() -> Optional[Found]:
    """Builds the library in the source tree, if there is one. A failing build prints its own errors."""
    tree = source_tree()
    if tree is None:
        return None
    subprocess.run(["./dev", "build"], cwd=tree, check=True)
    return _tree_build(tree)
