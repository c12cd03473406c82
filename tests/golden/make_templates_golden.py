#!/usr/bin/env python3
"""make_templates_golden.py - renders the models' own chat templates with jinja2, for tests/models/test_template.c.

    python tests/golden/make_templates_golden.py ../shared/templates tests/data/templates

Writes expected.json. Needs the Python package jinja2.
"""
import json
import os
import sys

import jinja2

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools"))
import compare_templates  # noqa: E402 - tools/compare_templates.py

# file, kvcull's name of the family, bos, eos
TEMPLATES = [
    ("meta-llama-Llama-3.1-8B-Instruct.jinja", "llama3.1", "<|begin_of_text|>", "<|eot_id|>"),
    ("mistralai-Mistral-Nemo-Instruct-2407.jinja", "mistral-nemo", "<s>", "</s>"),
    ("Qwen-Qwen2.5-7B-Instruct.jinja", "qwen2.5", "", "<|im_end|>"),
    ("Qwen-Qwen3-0.6B.jinja", "qwen3", "", "<|im_end|>"),
    ("microsoft-Phi-3.5-mini-instruct.jinja", "phi3.5", "<s>", "<|endoftext|>"),
]


def say(*turns):
    roles = {"s": "system", "u": "user", "a": "assistant"}
    return [{"role": roles[turn[0]], "content": turn[1:]} for turn in turns]


CONVERSATIONS = [
    say("uHello"),
    say("sYou are terse.", "uHello"),
    say("s  Spaces around. \n", "u \n Hello there\t\n", "a  Hi.  ", "u\u00a0Bye\u3000\n"),
    say("uOne", "aTwo", "uThree", "aFour", "uFive"),
    say("sBe kind.", "uOne", "aTwo", "uThree", "aFour", "uFive"),
    say("uOne", "aTwo"),
    say("sBe kind.", "uOne", "aTwo"),
    say("u", "a", "u"),
    say("s", "uEmpty system"),
    say("u'quotes' \"double\" {{ braces }} {% tag %} \\n <|im_end|> [/INST]", "a<b>&amp;</b>", "uÄ漢🦙"),
    say("uThink", "a<think>\nfirst\nthought\n</think>\n\nThe answer.", "uAgain"),
    say("uThink", "a<think>\nfirst\nthought\n</think>\n\nThe answer."),
    say("uThink", "a<think>\n\n</think>\n\nThe answer."),
    say("uThink", "ano opening</think>rest</think>\n\nlast"),
    say("uThink", "ax<think>a<think>b</think>\nc"),
    say("uThink", "a</think>"),
    say("uThink", "a\n\n</think>\n\n<think>after"),
    say("u<tool_response>x</tool_response>", "aOne"),
    say("uQ", "a<think>t</think>One", "u<tool_response>x</tool_response>", "a<think>u</think>Two"),
    say("uQ", "aOne", "u<tool_response>x</tool_response>", "aTwo", "uThree"),
    say("uOne", "uTwo"),
    say("uOne", "sLate", "uTwo"),
    say("aFirst", "uThen"),
    say("sOnly"),
]


def main():
    source, target = sys.argv[1:3]
    environment = compare_templates.environment(date=None)
    rows = []
    for file, family, bos, eos in TEMPLATES:
        with open(os.path.join(source, file)) as text:
            template = environment.from_string(text.read())
        for index, messages in enumerate(CONVERSATIONS):
            for answer in (False, True):
                try:
                    out = template.render(messages=messages, tools=None, documents=None, add_generation_prompt=answer,
                                          bos_token=bos, eos_token=eos)
                except jinja2.exceptions.TemplateError:
                    out = None  # the template refuses
                rows.append({"file": file, "family": family, "bos": bos, "eos": eos, "conversation": index,
                             "answer": answer, "text": out})
    os.makedirs(target, exist_ok=True)
    with open(os.path.join(target, "expected.json"), "w") as out:
        json.dump({"jinja2": jinja2.__version__, "conversations": CONVERSATIONS, "rows": rows}, out, indent=0)
        out.write("\n")


if __name__ == "__main__":
    main()
