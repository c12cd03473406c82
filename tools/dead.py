#!/usr/bin/env python3
"""dead.py - lists functions, macros and options of the product that only tests use or that nothing uses.

    python3 tools/dead.py BUILD SOURCE

Functions and data: the relocations of the objects of libkvcull and of the program, followed from main and from the
public functions. If the program reaches one function of an object, everything that the object's static functions use
counts as reached, because calls of static functions have no relocation. A function counts as used if a source file for
another library or processor names it. Macros, inline functions and enumerators are listed if their name occurs only
once and no macro composes it. Options of the program, of methods and of requests are listed if nothing reads their
value. Prints one line for each, and exits with 1 if there are any.
"""
import os
import re
import struct
import subprocess
import sys

PRODUCT = ("core", "ranks", "backends", "models", "policies", "cli", "eval", "serve", "bench", "include")
TESTS = ("tests", "examples")
SYSTEM = {"CL_TARGET_OPENCL_VERSION"}  # macros that system headers read
# Code of CUDA, of kernels, of another processor's vectors, or of a build with assertions.
ELSEWHERE = re.compile(r"^core/base/assert|^backends/(cuda|kernels)/|/lanes/|\.cu$")
FUNCTION, OBJECT, SECTION = 2, 1, 3


class Object:
    """An ELF file of 64 bits, little-endian: the symbols it defines, and which of them use which symbols."""

    def __init__(self, name, data):
        self.name, self.uses, self.defined = name, {}, {}
        if data[:6] != b"\x7fELF\x02\x01":
            sys.exit(f"dead.py: {name}: is no ELF file of 64 bits, little-endian")
        at, = struct.unpack_from("<Q", data, 40)
        size, count, _ = struct.unpack_from("<HHH", data, 58)
        sections = [struct.unpack_from("<IIQQQQIIQQ", data, at + i * size) for i in range(count)]
        table = next((section for section in sections if section[1] == 2), None)
        if not table:
            return
        names = sections[table[6]][4]
        symbols = []
        for place in range(table[4], table[4] + table[5], 24):
            start, info, _, section, value, length = struct.unpack_from("<IBBHQQ", data, place)
            end = data.index(b"\0", names + start)
            symbols.append((data[names + start:end].decode(), info >> 4, info & 15, section, value, length))
        inside = {}
        for symbol, binding, kind, section, value, length in symbols:
            if section and kind in (FUNCTION, OBJECT):
                # its object represents a static function or variable
                who = symbol if binding else ""
                inside.setdefault(section, []).append((value, value + length, who))
                if binding:
                    self.defined[symbol] = "function" if kind == FUNCTION else "data"
        for section in sections:
            if section[1] != 4:
                continue
            for place in range(section[4], section[4] + section[5], 24):
                offset, info, _ = struct.unpack_from("<QQq", data, place)
                symbol, _, kind, of, _, _ = symbols[info >> 32]
                if kind == SECTION or not symbol:
                    continue
                user = next((who for low, high, who in inside.get(section[7], ()) if low <= offset < high), "")
                self.uses.setdefault(user, set()).add(symbol)


def archive(path):
    """The objects of an ar archive."""
    with open(path, "rb") as file:
        data = file.read()
    place, long_names = 8, b""
    while place < len(data):
        name, size = data[place:place + 16].decode().strip(), int(data[place + 48:place + 58])
        body = data[place + 60:place + 60 + size]
        place += 60 + size + size % 2
        if name == "//":
            long_names = body
        elif name != "/":
            if name[0] == "/":
                start = int(name[1:])
                name = long_names[start:long_names.index(b"/", start)].decode()
            yield Object(name, body)


def reached(objects, roots):
    """Returns the symbols that are reached from the roots."""
    where = {}
    for one in objects:
        for symbol in one.defined:
            where.setdefault(symbol, []).append(one)
    found, left, entered = set(), list(roots), set()
    while left:
        symbol = left.pop()
        if symbol in found:
            continue
        found.add(symbol)
        for one in where.get(symbol, ()):
            left.extend(one.uses.get(symbol, ()))
            if one.name not in entered:
                entered.add(one.name)
                left.extend(one.uses.get("", ()))
    return found


def without_comments(text):
    return re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.S)


def compiled(build):
    """Returns the source files, without .c, of which the build has an object."""
    there = set()
    for folder, _, files in os.walk(build):
        folder = os.path.relpath(folder, build).replace("/.libs", "")
        there.update(f"{folder}/{re.sub(r'^.*_la-', '', file)[:-2]}" for file in files if file.endswith(".o"))
    return there


def user(name, tested):
    return "only tests use it" if name in tested else "nobody uses it"


def functions(build, elsewhere, tested):
    """Returns functions and variables that neither main nor a public function reaches."""
    objects = [one for name in ("libkvc.a", "libkvcli.a") for one in archive(os.path.join(build, ".libs", name))]
    with open(os.path.join(build, "cli/main.o"), "rb") as file:
        program = Object("cli/main.o", file.read())
    with open(os.path.join(build, "kvcull.sym")) as file:
        used = reached([*objects, program], [*program.defined, "", *file.read().split()])
    for one in objects:
        for symbol, kind in one.defined.items():
            if symbol not in used and symbol not in elsewhere:
                yield f"{kind} {symbol} ({one.name.strip('/')}): {user(symbol, tested)}"


def definitions(texts, counts, tested):
    """Returns macros, inline functions and enumerators whose name occurs only once and is not composed by a macro
    (A##B)."""
    composed = {word for text in texts.values() for pair in re.findall(r"(\w*) *## *(\w*)", text) for word in pair}
    composed = tuple(composed - {"", "kvc_", "KVC_"})
    kinds = (("macro", r"^ *# *define +(\w+)"), ("inline function", r"^static inline [^;={]*?(\w+)\("),
             ("enumerator", r"^ +(KVC_[A-Z0-9_]+)(?: = [^,]*)?,$"))
    for file, text in texts.items():
        for kind, pattern in kinds:
            for name in re.findall(pattern, text, re.M):
                if counts[name] == 1 and name not in SYSTEM and not name.startswith(composed) and \
                        not name.endswith(("_H", *composed)) and not file.startswith("include/"):
                    yield f"{kind} {name} ({file}): {user(name, tested)}"


def options(texts):
    """Returns the options of the program, of methods and of requests whose value nothing reads."""
    row = re.compile(r"\{(?:\.kind = )?CLI_[A-Z0-9]+,[^{}]*\}")
    read = {member for text in texts.values() for member in re.findall(r"(?:\.|->)(\w+)", row.sub("", text))}
    values = {name for text in texts.values() for name in re.findall(r'kvc_value_\w+\([^;]*?"(\w+)"', text)}
    for file, text in texts.items():
        targets = [target for one in row.findall(text) for target in re.findall(r"&[\w.>-]*\b(\w+)", one)]
        targets += re.findall(r"\bAT\((\w+)\)", text) + re.findall(r"\boffsetof\(struct \w+, (\w+)\)", text)
        plain = re.sub(r"\b(AT|offsetof)\([^()]*\)", "", row.sub("", text))
        for member in targets:
            rest = re.sub(rf"\w+ \*?{member}(\[.*?\])?;", "", plain)  # without its declaration
            if member not in read and not re.search(rf"\b{member}\b", rest):
                yield f"option {member} ({file}): nothing reads it"
        for name in re.findall(r'^ *(?:#define .*)?\{"(\w+)", *KVC_OPTION_', text, re.M):
            if name not in values and len(re.findall(rf'"{name}"', text)) < 2:  # its row, and a name in a variable
                yield f"option {name} ({file}): nothing reads it"


def main():
    build, source = sys.argv[1:]
    found = subprocess.run(["find", *PRODUCT, *TESTS, "-type", "f"], cwd=source, stdout=subprocess.PIPE, text=True,
                           check=True)
    texts, counts, tested, elsewhere, there = {}, {}, set(), set(), compiled(build)
    for file in found.stdout.split():
        if not re.search(r"\.(c|h|inc|def|cu|cc)$", file):
            continue
        with open(os.path.join(source, file), errors="replace") as opened:
            text = without_comments(opened.read())
        words = re.findall(r"[A-Za-z_]\w*", text)
        if file.startswith(TESTS):
            tested.update(words)
            continue
        texts[file] = text
        if ELSEWHERE.search(file) or (file.endswith(".c") and file[:-2] not in there):
            elsewhere.update(words)
        for word in words:
            counts[word] = counts.get(word, 0) + 1
    wrong = sorted({*functions(build, elsewhere, tested), *definitions(texts, counts, tested), *options(texts)})
    for line in wrong:
        print(line)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
