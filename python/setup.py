"""Installs the package for the library that is found (kvcull/_find.py says where), or builds that first.

Two files are made: kvcull/_interface.py, what the library's headers declare, and, where the library is a build of the
source tree that nobody installed, a copy of it beside the package. KVCULL_LOADED is for makers of packages: the name by
which the library is loaded, as libkvcull.so.0, where it will be another file than the one that is found here.
"""
import importlib.util
import os
import shutil
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent


def part(name):
    """A module of the package, without the package, which would load the library."""
    spec = importlib.util.spec_from_file_location(name, HERE / "kvcull" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


find, headers = part("_find"), part("_headers")


def found_library():
    """The library, built where there is none; None: there is no way to one."""
    return find.find() or find.build()


class Build(build_py):
    """build_py with the two files."""

    def run(self):
        super().run()
        found = found_library()
        if found is None:
            raise SystemExit("libkvcull is not found: install it (pkg-config must know kvcull), set KVCULL_LIBRARY to "
                             "its file, or run this in the source tree")
        text = headers.read(found.include)
        target = Path(self.build_lib) / "kvcull"
        library = os.environ.get("KVCULL_LOADED") or str(found.library)
        if found.in_tree and library == str(found.library):
            library = find.FILES[1]
            shutil.copyfile(found.library.resolve(), target / library)
        (target / "_interface.py").write_text(
            '"""Made by setup.py of the library\'s headers."""\n'
            f"LIBRARY = {library!r}\nMACROS = {headers.macros(text)!r}\nDECLARATIONS = '''\n"
            f"{headers.declarations(text)}'''\n", encoding="utf-8")


class OfThisMachine(Distribution):
    """A package that holds or names a library of this machine."""

    def has_ext_modules(self):
        return True


def version():
    """The version of the headers; 0 where there are none yet, which Build then says."""
    found = find.find()
    folder = found.include if found else find.source_tree() and find.source_tree() / "include"
    return headers.macros(headers.read(folder))["KVC_VERSION"] if folder else "0"


setup(version=version(), cmdclass={"build_py": Build}, distclass=OfThisMachine)
