#!/usr/bin/env python3
"""make_snippets_golden.py - renders the short templates of snippets.json with jinja2, for tests/models/test_jinja.c.

    python tests/golden/make_snippets_golden.py tests/data/templates

snippets.json is written by hand and has the templates and their variables. snippets_expected.json is the output: a
text for each template, null where jinja2 refuses. Needs the Python package jinja2.
"""
import json
import os
import sys

import jinja2

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools"))
import compare_templates  # noqa: E402 - tools/compare_templates.py


def main():
    folder = sys.argv[1]
    with open(os.path.join(folder, "snippets.json")) as file:
        snippets = json.load(file)
    environment = compare_templates.environment()
    texts = []
    for source in snippets["templates"]:
        try:
            template = environment.from_string(source)
        except Exception as error:  # Python may reject the code that Jinja generates
            template = error
        texts.append(compare_templates.python(template, snippets["variables"])[0])
    with open(os.path.join(folder, "snippets_expected.json"), "w") as out:
        json.dump({"jinja2": jinja2.__version__, "date": compare_templates.DATE, "texts": texts}, out, indent=0)
        out.write("\n")


if __name__ == "__main__":
    main()
