#!/usr/bin/env python3
"""fuzz_templates.py - renders random short templates, which use every feature of the template engine, with jinja2 and
with kvcull. Both must give the same text or both must refuse. kvcull may also refuse with an error that names an
unsupported feature.

    python tools/fuzz_templates.py RENDERER [--count N] [--seed N] [--show N] [--golden FILE]

RENDERER is tests/models/jinja_render of the build folder. --golden writes the templates with jinja2's texts (null:
jinja2 refuses) for tests/models/test_jinja.c. Exit status: 0 if nothing differs, otherwise 1. Needs the Python
package jinja2.
"""
import argparse
import json
import random
import re
import subprocess
import sys

import jinja2

import compare_templates

# Errors of kvcull that are accepted although jinja2 renders the template: an unsupported feature, or a limit.
NAMED = re.compile(r"not supported|64 bits|too (large|much|many|deep)|more than \d+|cannot be a key|has no character|has no slices|"
                   r"cannot be written|is not a character|must not change|cannot be written as JSON|not a finite number")

LETTERS = ["a", "B", "ß", "ﬁ", "ŉ", "ǆ", "ǅ", "Σ", "ς", "σ", "İ", "ı", "ΐ", "ᾳ", "ᾼ", "é", "e\u0301", "Ⅷ", "ⓐ", "ª", "ʰ", "²",
           "½", "一", "٣", "①", "漢", "🦙", "_", "'", ".", " ", "\u00a0", "\t", "\n", "\u2028", "\x1c", "-", "(", "<", "&",
           "\"", "{", "%", "\u0301", "Ω", "ﬆ", "Ꭰ", "ꭰ", "ẞ", "\\", "0", "7", "\u00ad", "։", "\u200d", "\r\n"]
VARIABLES = {
    "l": [3, 1, 2, 1], "m": ["b", "A", "a", "B", "ﬁ"], "d": {"b": 1, "a": 2.5, "C": "x", "A": None}, "e": "", "n": None,
    "t": True, "f": 2.5, "i": 42, "neg": -7, "s": "Hello Wörld <b>&'\"", "w": "  one two\tthree\n\nfour ", "z": 0,
    "ms": [{"role": "user", "n": 2}, {"role": "Bot", "n": 1}, {"role": "user", "n": 3}], "ll": [[1, 2], [3], []],
    "mixed": [1, "1", 1.0, None, True, "x"], "big": 12345678, "tiny": 0.000123, "words": "ΑΣ ΑΣ. 'Σ ﬁne ŉ ßtraße",
}


class Maker:
    def __init__(self, seed):
        self.r = random.Random(seed)

    def pick(self, *choices):
        return self.r.choice(choices)

    def chance(self, share):
        return self.r.random() < share

    def quoted(self, text):
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r") + "'"

    def text(self):
        return self.quoted("".join(self.r.choice(LETTERS) for _ in range(self.r.randrange(0, 6))))

    def number(self):
        return self.pick("0", "1", "2", "-1", "3", "5", "10", "-3", "2.5", "-2.5", "0.5", "1e3", "1e16", "1e-5", "15", "25",
                         "125.0", "1234567", "0.1", "1.005", "1e22", "-0.0", "255", "true", "i", "neg", "f", "big", "tiny")

    def small(self):
        return self.pick("0", "1", "2", "3", "4", "7", "-1", "-2", "true", "12")

    def string(self, depth=0):
        if self.chance(0.1):
            return f"({self.pick('s', 'w', self.text())}|{self.pick('safe', 'e', 'escape', 'forceescape')})"
        if depth > 0 or self.chance(0.5):
            return self.pick("s", "w", "e", "words", self.text(), self.text(), self.text())
        return self.pick(f"({self.text()}|{self.pick('safe', 'e', 'escape', 'forceescape')})",
                         f"({self.value(depth + 1)}|string)", f"({self.value(depth + 1)} ~ {self.value(depth + 1)})")

    def sequence(self, depth=0):
        plain = self.pick("l", "m", "ll", "ms", "mixed", "range(4)", "range(5, 0, -2)", "(1, 2, 1)", "('b', 'a')", "[]", "()",
                          "(1,)", "d.items()", "d.keys()", "d.values()", "[[1], (1, 2), {'a': 1}]", "['<'|e, 'x']")
        if depth > 1 or self.chance(0.7):
            return plain
        return f"[{self.value(depth + 1)}, {self.value(depth + 1)}]"

    def value(self, depth=0):
        kind = self.r.randrange(10)
        if depth > 2 or kind < 2:
            return self.pick(self.number(), self.text(), "n", "nosuch", "d", "t", "l", "s")
        if kind < 4:
            return self.string(depth)
        if kind < 5:
            return self.sequence(depth)
        if kind < 6:
            return self.number()
        if kind < 8:
            return self.filtered(depth)
        if kind < 9:
            return self.method(depth)
        return self.operation(depth)

    def operation(self, depth):
        a, b = self.value(depth + 1), self.value(depth + 1)
        return "(" + self.pick(
            f"{a} {self.pick('+', '-', '*', '/', '//', '%', '**', '~', '==', '!=', '<', '<=', '>', '>=', 'in', 'not in')} {b}",
            f"{a} and {b}", f"{a} or {b}", f"not {a}", f"-{a}", f"{a} if {b} else {self.value(depth + 1)}", f"{a} if {b}",
            f"{a}[{self.small()}]", f"{a}[{self.small()}:{self.small()}]", f"{a}[::{self.small()}]", f"{a}.a", f"{a}['a']",
            f"{a} is {self.test()}", f"{a} is not {self.test()}", f"{self.string(depth)} * {self.small()}",
            f"{self.percent(depth)}") + ")"

    def test(self):
        return self.pick(
            "defined", "undefined", "none", "string", "mapping", "iterable", "sequence", "boolean", "true", "false", "integer",
            "float", "number", "callable", "lower", "upper", "escaped", "odd", "even", "divisibleby 3", "sameas 1", "in l",
            "eq 1", "ne 1", "lt 3", "le 3", "gt 3", "ge 3", "filter", "test", "sameas none")

    def percent(self, depth):
        flags = "".join(self.r.choice("-0+ #") for _ in range(self.r.randrange(0, 3)))
        width = self.pick("", "", "1", "5", "12", "*")
        places = self.pick("", "", ".", ".0", ".1", ".3", ".10", ".*")
        kind = self.pick(*"sssrddddiufFeEgGxXocca%")
        form = "%" + flags + width + places + kind
        stars = [self.small() for _ in range((width + places).count("*"))]
        if self.chance(0.1):
            return f"'<%({self.pick('a', 'b', 'q')}){flags}{kind}>' % d"
        value = self.number() if self.chance(0.7) else self.value(depth + 1)
        values = ", ".join([*stars, value] if kind != "%" else stars)
        if not stars and self.chance(0.3):
            return f"'<{form}>' % {value}"
        form = self.quoted(f"<{form}>{self.pick('', '', '%%', '%s', 'é')}")
        form = f"({form}|{self.pick('safe', 'string')})" if self.chance(0.1) else form
        return f"{form} % ({values},)" if self.chance(0.7) else f"({form}|format({values}))"

    def spec(self):
        fill = self.pick("", "", "<", ">", "^", "=", "*<", "é^", "0>", "0=")
        return (fill + self.pick("", "", "+", "-", " ") + self.pick("", "", "", "#") + self.pick("", "", "0") +
                self.pick("", "", "3", "8", "12", "{w}") + self.pick("", "", "", ",", "_") + self.pick("", "", ".0", ".2", ".5") +
                self.pick("", "", "s", "d", "f", "F", "e", "E", "g", "G", "x", "X", "o", "b", "%", "n"))

    def brace(self, depth):
        spec = self.pick("", ":" + self.spec(), ":" + self.spec())
        how = self.pick("", "", "", "!r", "!s", "!a")
        name = self.pick("", "", "0", "x", "y", "x.a", "x[0]", "y[a]", "1")
        value = self.number() if self.chance(0.6) else self.value(depth + 1)
        form = self.quoted("<{" + name + how + spec + "}>" + self.pick("", "{{}}", "{}", "{0}", "}", "é"))
        form = f"({form}|safe)" if self.chance(0.1) else form
        return f"{form}.format({value}, {self.number()}, x={self.value(depth + 1)}, y=d, w={self.small()})"

    def filtered(self, depth):
        s, q, v = self.string(depth + 1), self.sequence(depth + 1), self.value(depth + 1)
        boolean = self.pick("true", "false")
        return "(" + self.pick(
            f"{s}|{self.pick('upper', 'lower', 'capitalize', 'title', 'trim', 'wordcount', 'length', 'e', 'escape', 'safe', 'forceescape', 'list', 'reverse', 'first', 'last', 'string', 'count', 'int', 'float', 'unique|list', 'sort', 'max', 'min')}",
            f"{v}|{self.pick('upper', 'lower', 'capitalize', 'title', 'trim', 'wordcount', 'length', 'e', 'string', 'int', 'float', 'abs', 'round', 'tojson', 'list', 'first', 'last', 'd', 'default', 'items|list', 'join')}",
            f"{q}|{self.pick('length', 'count', 'first', 'last', 'list', 'reverse|list', 'sort', 'sum', 'max', 'min', 'unique|list', 'join', 'tojson', 'string', 'sort(reverse=true)', 'sort(case_sensitive=true)', 'unique(true)|list')}",
            f"{self.number()}|round({self.pick('', '1', '2', '-1', '-2', '0', '5', '-1, ' + repr('floor'), '1, ' + repr('ceil'), '2, ' + repr('floor'), '0, ' + repr('common'), '-2, ' + repr('ceil'), '0, ' + repr('no'))})",
            f"{s}|trim({self.text()})", f"{s}|replace({self.text()}, {self.text()})", f"{s}|replace({self.text()}, {self.text()}, {self.small()})",
            f"{s}|center({self.small()}{self.small()})", f"{s}|indent({self.small()}, {boolean}, {boolean})", f"{s}|indent({self.text()})",
            f"{q}|join({self.text()})", f"{q}|join('-', 'a')", f"{q}|batch({self.small()})|list", f"{q}|batch(3, {v})|list",
            f"{q}|map({self.quoted(self.pick('upper', 'string', 'length', 'abs', 'int', 'first', 'nosuch'))})|list",
            f"ms|map(attribute={self.quoted(self.pick('role', 'n', 'q'))})|list", f"ms|map(attribute='q', default={v})|list",
            f"{q}|{self.pick('select', 'reject')}|list", f"{q}|{self.pick('select', 'reject')}({self.quoted(self.pick('odd', 'string', 'none', 'defined', 'eq'))})|list",
            f"ms|{self.pick('selectattr', 'rejectattr')}({self.quoted(self.pick('role', 'n', 'q'))}{self.pick('', ', ' + repr('eq') + ', 2', ', ' + repr('defined'))})|list",
            f"ms|sort(attribute={self.quoted(self.pick('role', 'n', 'role,n', 'q'))})", f"ms|sum(attribute='n')", f"{q}|sum(start={v})",
            f"ms|unique(attribute='role')|list", f"d|dictsort({boolean}, {self.quoted(self.pick('key', 'value', 'no'))}, {boolean})", f"d|items|list",
            f"{v}|default({v}, {boolean})", f"{s}|int({self.small()})", f"{s}|int(0, {self.pick('2', '8', '16', '10', '0')})", f"{s}|float({self.small()})",
            f"{v}|tojson(indent={self.small()})", f"{v}|attr({self.text()})", f"{q}|max(attribute='n')", f"{self.percent(depth)}",
            f"{s}|wordcount") + ")"

    def method(self, depth):
        s, q, t = self.string(depth + 1), self.sequence(depth + 1), self.text()
        n, k = self.small(), self.small()
        return self.pick(
            f"{s}.{self.pick('upper', 'lower', 'capitalize', 'title', 'casefold', 'strip', 'lstrip', 'rstrip', 'split', 'rsplit', 'splitlines', 'isalpha', 'isdigit', 'isdecimal', 'isnumeric', 'isalnum', 'isspace', 'isascii', 'isprintable', 'isupper', 'islower', 'swapcase', 'istitle', 'isidentifier', 'expandtabs')}()",
            f"{s}.{self.pick('strip', 'lstrip', 'rstrip', 'split', 'rsplit', 'partition', 'rpartition', 'startswith', 'endswith', 'find', 'rfind', 'index', 'rindex', 'count', 'removeprefix', 'removesuffix')}({t})",
            f"{s}.{self.pick('split', 'rsplit', 'find', 'rfind', 'count', 'startswith', 'endswith')}({t}, {n})",
            f"{s}.{self.pick('split', 'rsplit')}(none, {n})", f"{s}.{self.pick('find', 'rfind', 'count', 'startswith')}({t}, {n}, {k})",
            f"{s}.replace({t}, {self.text()})", f"[{s}.replace({t}, {s}), {s}|{self.pick('upper', 'lower', 'trim', 'title', 'capitalize', 'indent', 'center(5)', 'string', 'reverse', 'first', 'list')}]",
            f"[{s}.{self.pick('upper', 'lower', 'strip', 'split', 'title', 'capitalize', 'splitlines', 'casefold')}(), {s}[1:], {s}[0], {s} * 2, {s} + {t}, {t} + {s}, {s} ~ {t}]",
            f"[{t}.join([{s}]), {s}.join([{t}, {s}]), {s}.partition({t}), {s}.center(9, {t}), {s}.removeprefix({t})]", f"{s}.replace({t}, {self.text()}, {n})", f"{t}.join({q})", f"{t}.join({self.value(depth + 1)})",
            f"{s}.{self.pick('ljust', 'rjust', 'center')}({n}{k})", f"{s}.{self.pick('ljust', 'rjust', 'center')}({n}, {self.pick(repr('*'), repr('é'), repr('<'), t)})",
            f"{s}.zfill({n}{k})", f"{s}.splitlines(true)", f"{s}.startswith(({t}, 'a'))", f"{q}.{self.pick('copy', 'sort', 'reverse')}()",
            f"{q}.{self.pick('count', 'index', 'append')}({n})", f"d.{self.pick('get', 'pop')}({self.pick(repr('a'), repr('q'), '1', '[]')})",
            f"d.get('q', {self.value(depth + 1)})", f"d.copy()", self.brace(depth), self.brace(depth))

    def macro(self):
        parameters = self.pick("", "a", "a, b", "a, b=2", "a=1, b=a")
        body = self.pick("{{ a }}{{ b }}", "{{ varargs }}", "{{ kwargs }}", "{{ a }}{{ varargs }}{{ kwargs }}", "{{ caller() }}",
                         "{{ caller }}", "{{ caller(1, 2) }}", "{% if caller %}{{ caller('x') }}{% endif %}{{ varargs|length }}",
                         "{% for x in varargs %}{{ x }},{% endfor %}", "{% set varargs = 1 %}{{ varargs }}",
                         "{{ varargs[0] }}{% set varargs = 3 %}",
                         "{% macro g(kwargs) %}{{ kwargs }}{{ varargs }}{% endmacro %}{{ g(1, 2) }}{{ kwargs }}",
                         "{% macro g() %}{{ caller() }}{% endmacro %}{% call g() %}{{ caller() }}{% endcall %}",
                         "{% macro g() %}{{ caller() }}{% endmacro %}{% call g() %}{{ varargs }}{% endcall %}", "{{ f.name }}{{ f.arguments }}{{ f.catch_varargs }}{{ f.catch_kwargs }}{{ f.caller }}")
        arguments = ", ".join([self.value(2) for _ in range(self.r.randrange(0, 4))] +
                              [f"{name}={self.number()}" for name in self.r.sample(["a", "b", "c", "caller"], self.r.randrange(0, 3))])
        call = self.pick(f"{{{{ f({arguments}) }}}}", f"{{% call f({arguments}) %}}[in]{{% endcall %}}",
                         f"{{% call(p) f({arguments}) %}}{{{{ p }}}}{{% endcall %}}",
                         f"{{% call(p, q=3) f({arguments}) %}}{{{{ p }}}}{{{{ q }}}}{{{{ varargs }}}}{{% endcall %}}")
        return f"{{% macro f({parameters}) %}}{body}{{% endmacro %}}{call}"

    def statement(self):
        v, q = self.value(), self.sequence()
        attribute = self.pick("index", "index0", "revindex", "revindex0", "first", "last", "length", "previtem", "nextitem", "depth",
                              "depth0", "cycle('a', 'b')", "changed(x)", "changed(x, 1)", "changed()", "nosuch")
        return self.pick(
            f"{{% for x in {q} %}}{{{{ loop.{attribute} }}}},{{{{ x }}}};{{% else %}}none{{% endfor %}}",
            f"{{% for x in {q} if x %}}{{{{ loop.{attribute} }}}}{{{{ x }}}}{{% endfor %}}",
            f"{{% for x in {v} %}}{{{{ x }}}},{{% endfor %}}", f"{{% for k, x in {q} %}}{{{{ k }}}}={{{{ x }}}},{{% endfor %}}",
            f"{{% for x in {q} %}}{{% if loop.changed(x|string|lower) %}}{{{{ x }}}}{{% continue %}}{{% endif %}}-{{% endfor %}}",
            f"{{% for x in {q} %}}{{% if x == {self.small()} %}}{{% break %}}{{% endif %}}{{{{ x }}}}{{% endfor %}}",
            f"{{% set x = {v} %}}{{{{ x }}}}", f"{{% set x %}}{self.pick('a<b', '{{ s }}', '')}{{% endset %}}{{{{ x|{self.pick('upper', 'e', 'length')} }}}}",
            f"{{% set x | {self.pick('upper', 'length', 'e', 'first', 'list', 'title')} %}}ab <c>{{% endset %}}{{{{ x }}}}",
            f"{{% filter {self.pick('upper', 'length', 'e', 'first', 'list', 'title', 'wordcount', 'int', 'trim|upper', 'replace(' + repr('a') + ',' + repr('b') + ')', 'indent(2)', 'default(1)', 'tojson')} %}}ab <c>\nd{{% endfilter %}}",
            f"{{% with x = {v}, y = x %}}{{{{ x }}}}{{{{ y }}}}{{% endwith %}}", f"{{% set ns = namespace(a={v}) %}}{{% for x in l %}}{{% set ns.a = x %}}{{% endfor %}}{{{{ ns.a }}}}",
            f"{{% if {v} %}}yes{{% elif {self.value()} %}}perhaps{{% else %}}no{{% endif %}}", f"{{{{ [{v}, {self.value()}] }}}}", f"{{{{ {{'k': {v}}} }}}}",
            f"{{{{ ({v}, {self.value()})|unique|list }}}}", self.macro(), self.macro(), self.macro())

    def template(self):
        return self.statement() if self.chance(0.3) else "{{ " + self.pick(
            self.value(), self.filtered(0), self.method(0), self.operation(0), self.percent(0), self.brace(0)) + " }}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("renderer")
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=20)
    parser.add_argument("--golden")
    given = parser.parse_args()
    process = subprocess.Popen([given.renderer], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    environment = compare_templates.environment()
    totals, shown, golden, maker = {}, {}, [], Maker(given.seed)
    for _ in range(given.count):
        source = maker.template()
        try:
            template = environment.from_string(source)
        except Exception as error:  # Python may reject the code that Jinja generates
            template = error
        text, why = compare_templates.python(template, VARIABLES)
        process.stdin.write(json.dumps({"template": source, "variables": VARIABLES, "date": None}) + "\n")
        process.stdin.flush()
        got = json.loads(process.stdout.readline())
        if "text" in got:
            kind = "rendered by kvcull alone" if text is None else "equal" if got["text"] == text else "different"
        elif text is None:
            kind = "refused by both"
        else:
            # a prompt never contains addresses of objects
            kind = "refused by name" if NAMED.search(got["error"]) or re.search(r" at 0x|<bound|<built-in", text) else "refused"
        totals[kind] = totals.get(kind, 0) + 1
        if kind in ("equal", "refused by both"):
            golden.append((source, text))
        elif kind != "refused by name" and shown.get(kind, 0) < given.show:
            shown[kind] = shown.get(kind, 0) + 1
            print(f"{kind}: {source!r}\n    jinja2: {text if text is not None else why!r}\n    kvcull: {got.get('text', got.get('error'))!r}")
    process.stdin.close()
    print(", ".join(f"{count} {kind}" for kind, count in sorted(totals.items())))
    if given.golden:
        with open(given.golden, "w") as out:
            json.dump({"jinja2": jinja2.__version__, "variables": VARIABLES, "templates": [g[0] for g in golden],
                       "texts": [g[1] for g in golden]}, out, indent=0)
            out.write("\n")
    return 1 if set(totals) - {"equal", "refused by both", "refused by name"} else 0


if __name__ == "__main__":
    sys.exit(main())
