#!/usr/bin/env python3
"""compare_templates.py - renders every *.jinja of some folders with kvcull and with jinja2 (as transformers compiles
chat templates). The conversations are with and without system text, tools, tool calls and results, documents and
thinking. Both must give the same text, or both must refuse.

    python tools/compare_templates.py RENDERER FOLDER... [--show N]

RENDERER is tests/models/jinja_render of the build folder. Exit status: 0 if no text differs and kvcull refuses
nothing that jinja2 renders, otherwise 1. Needs the Python package jinja2.
"""
import datetime
import json
import os
import subprocess
import sys

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

DATE = "2025-06-30 14:05:09"


class Generation(jinja2.ext.Extension):
    """Implements {% generation %}, which marks the model's text for training. It renders its content."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_same"), [], [], body).set_lineno(line)

    def _same(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


class Dict:
    def __call__(self, *args, **kwargs):
        return dict(*args, **kwargs)


def environment(date=DATE):
    made = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    made.globals["dict"] = Dict()
    if date:
        made.globals["strftime_now"] = lambda form: datetime.datetime.fromisoformat(date).strftime(form)
    return made


def say(*turns):
    roles = {"s": "system", "u": "user", "a": "assistant", "d": "developer", "t": "tool"}
    return [{"role": roles[turn[0]], "content": turn[1:]} for turn in turns]


def call(name, arguments, number="call00001", **more):
    return {"role": "assistant", "tool_calls": [
        {"type": "function", "id": number, "function": {"name": name, "arguments": arguments}}], **more}


WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "What the weather is like <now> & \"here\".",
    "parameters": {"type": "object", "required": ["city"], "properties": {
        "city": {"type": "string", "description": "A town, like Zürich"},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
        "days": {"type": "integer", "minimum": 1},
        "detail": {"type": "object", "properties": {"wind": {"type": "boolean"}, "range": {
            "type": "array", "items": {"type": "number"}}}, "required": ["wind"]}}},
    "return": {"type": "number", "description": "Degrees"}}}
CLOCK = {"type": "function", "function": {
    "name": "get_time", "description": "The time.", "parameters": {"type": "object", "properties": {}}}}
RESULT = {"role": "tool", "name": "get_weather", "tool_call_id": "call00001", "content": "{\"degrees\": 21.5}"}
DOCUMENTS = [{"title": "One", "text": "First text.", "doc_id": "1"}, {"title": "Zwei", "text": "Zweiter Text.\n"}]

ASK = say("sBe kind.", "uWeather in Zürich?")
TALKS = [
    (say("uHello"), {}),
    (say("sYou are terse.", "uHello"), {}),
    (say("s  Spaces around. \n", "u \n Hello there\t\n", "a  Hi.  ", "u\u00a0Bye\u3000\n"), {}),
    (say("uOne", "aTwo", "uThree", "aFour", "uFive"), {}),
    (say("sBe kind.", "uOne", "aTwo", "uThree", "aFour"), {}),
    (say("u", "a", "u"), {}),
    (say("s", "uEmpty system"), {}),
    (say("u'q' \"d\" {{ b }} {% tag %} \\n <|im_end|> [/INST]", "a<b>&amp;</b>", "uÄ漢🦙"), {}),
    (say("uThink", "a<think>\nfirst\nthought\n</think>\n\nThe answer.", "uAgain"), {}),
    (say("uThink", "a<think>\n\n</think>\n\nThe answer."), {}),
    (say("uThink", "ax<think>a<think>b</think>\nc"), {}),
    (say("uOne", "uTwo"), {}),
    (say("uOne", "sLate", "uTwo"), {}),
    (say("aFirst", "uThen"), {}),
    (say("sOnly"), {}),
    (say("dRules.", "uHi"), {}),
    (say("sRules.", "dMore rules.", "uHi", "aHo", "uHa"), {}),
    ([{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A", "reasoning_content": "Because.\n"},
      {"role": "user", "content": "R"}], {}),
    ([{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A", "thinking": "Hm.", "reasoning": "Hm."}],
     {}),
    ([{"role": "user", "content": [{"type": "text", "text": "Parts"}, {"type": "text", "text": " of text"}]},
      {"role": "assistant", "content": [{"type": "text", "text": "Good"}]}, {"role": "user", "content": "So"}], {}),
    ([{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "What is this?"}]}], {}),
    (ASK, {"tools": [WEATHER, CLOCK]}),
    (say("uTime?"), {"tools": [CLOCK]}),
    (ASK, {"tools": []}),
    (ASK + [call("get_weather", {"city": "Zürich", "days": 3, "x": [1, 2.5, None, True, "a\"b"]})],
     {"tools": [WEATHER, CLOCK]}),
    (ASK + [call("get_weather", {"city": "Zürich"}), RESULT], {"tools": [WEATHER]}),
    (ASK + [call("get_weather", {"city": "Zürich"}, content=None), RESULT, *say("aIt is 21.5.", "uThanks")],
     {"tools": [WEATHER]}),
    (ASK + [call("get_weather", {"city": "Zürich"}, content="Let me look."), RESULT, *say("aIt is 21.5.", "uThanks")],
     {"tools": [WEATHER, CLOCK]}),
    (ASK + [call("get_weather", "{\"city\": \"Bern\"}", content=""), RESULT, *say("aIt is 21.5.", "uThanks")],
     {"tools": [WEATHER]}),
    (ASK + [call("get_weather", {"city": "Bern"}, content="", reasoning_content="I should look.", thinking="Look."),
            RESULT], {"tools": [WEATHER]}),
    (ASK + [{"role": "assistant", "content": "", "tool_calls": [
        {"type": "function", "id": "call00001", "function": {"name": "get_weather", "arguments": {"city": "Bern"}}},
        {"type": "function", "id": "call00002", "function": {"name": "get_time", "arguments": {}}}]},
        RESULT, {**RESULT, "name": "get_time", "tool_call_id": "call00002", "content": "12:00"}],
     {"tools": [WEATHER, CLOCK]}),
    (say("uTell me") + [call("get_time", {}), {"role": "tool", "name": "get_time", "content": {"now": [12, 0]}}], {}),
    (say("uWhat do they say?"), {"documents": DOCUMENTS}),
    (say("sSys", "uWhat do they say?", "aThis.", "uAnd?"), {"documents": DOCUMENTS, "tools": [CLOCK]}),
    (say("uHello"), {"enable_thinking": False}),
    (say("sSys /no_think", "uHello", "aHi", "uMore"), {"enable_thinking": True, "tools": [WEATHER]}),
    (say("uHello"), {"thinking": True, "reasoning_effort": "high", "model_identity": "You are a test."}),
    (say("uHello"), {"bos_token": "", "eos_token": ""}),
    (say("uHello"), {"custom_tools": [WEATHER["function"]], "date_string": "01 Jan 2025", "keep_past_thinking": True}),
    (say("uHello", "aHi", "uMore"), {"builtin_tools": ["python", "browser"], "xml_tools": [WEATHER], "tools_in_user_message": False,
                                     "response_format": {"type": "json"}, "controls": {"a": 1}}),
]


def cases():
    for messages, more in TALKS:
        for answer in (False, True):
            yield {"messages": messages, "tools": None, "documents": None, "bos_token": "<s>", "eos_token": "</s>",
                   "add_generation_prompt": answer, **more}


def python(template, variables):
    """Returns the rendered text, or None and jinja2's error."""
    try:
        if isinstance(template, Exception):
            raise template
        return template.render(**variables), None
    except Exception as error:  # a template can fail with any exception
        return None, f"{type(error).__name__}: {error}"


def main():
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    shown = int(sys.argv[sys.argv.index("--show") + 1]) if "--show" in sys.argv else 3
    if "--show" in sys.argv:
        arguments.remove(str(shown))
    renderer, folders = arguments[0], arguments[1:]
    paths = [os.path.join(folder, name) for folder in folders for name in sorted(os.listdir(folder))
             if name.endswith(".jinja")]
    process = subprocess.Popen([renderer], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    totals = {"equal": 0, "refused by both": 0, "refused by kvcull alone": 0, "rendered by kvcull alone": 0,
              "different": 0}
    bad, good = {}, 0
    for path in paths:
        with open(path, newline="") as file:
            source = file.read()
        try:
            template = environment().from_string(source)
        except Exception as error:
            template = error
        worst = None
        for variables in cases():
            text, why = python(template, variables)
            process.stdin.write(json.dumps({"template": source, "variables": variables, "date": DATE}) + "\n")
            process.stdin.flush()
            got = json.loads(process.stdout.readline())
            if "text" in got:
                kind = "rendered by kvcull alone" if text is None else "equal" if got["text"] == text else "different"
            else:
                kind = "refused by both" if text is None else "refused by kvcull alone"
            totals[kind] += 1
            if kind not in ("equal", "refused by both"):
                worst = kind
                bad.setdefault((os.path.basename(path), kind), []).append(
                    (variables, text if text is not None else why, got.get("text", got.get("error"))))
        good += worst is None
    process.stdin.close()
    for (name, kind), rows in bad.items():
        print(f"{name}: {kind} in {len(rows)} conversations")
        for variables, wanted, got in rows[:shown]:
            print(f"    jinja2: {wanted!r}\n    kvcull: {got!r}\n    of: {json.dumps(variables)[:400]}")
    print(f"{len(paths)} templates, {good} of them the same in every conversation")
    print(", ".join(f"{count} {kind}" for kind, count in totals.items()))
    wrong = totals["refused by kvcull alone"] + totals["rendered by kvcull alone"] + totals["different"]
    return 1 if wrong or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
