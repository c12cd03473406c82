"""test_families.py URL TEMPLATE - calls and thoughts with a real model's chat template; the model can write any
text."""
import re
import sys

import test_tools
from test_required import FORMS, TOOLS, check, raw, request
from test_tools import ask, both, plain, written

from client import case, run

FAMILIES = {'Qwen2.5': 'hermes', 'Qwen3-0.6B': 'hermes', 'QwQ': 'hermes', 'Hermes': 'hermes', 'Llama-3.': 'llama',
            'Mistral-Nemo': 'mistral', 'Mistral-Small-3.2': 'mistral-args', 'Devstral': 'mistral-args',
            'granite-3.3': 'granite',
            'command-r7b': 'command-a', 'command-r-plus': 'command-r', 'gpt-oss': 'gpt-oss'}
FAMILY = next((name for name in FAMILIES if name in sys.argv[2]), None)
USER = {'role': 'user', 'content': 'hello'}


def prompt(messages, **fields):
    return ''.join(ask(messages=messages, max_tokens=0, return_held=True, **fields)['prompt_pieces'])


def required():
    form = FORMS[FAMILIES[FAMILY]]
    for seed in range(2):
        fields = dict(request('', seed=seed), chat_template_kwargs={}, messages=[USER], parallel_tool_calls=False)
        got, finish = both(**fields)
        assert finish == 'tool_calls' and len(got['tool_calls']) == 1, got
        check(got)
        assert re.fullmatch(form[1], raw(fields), re.DOTALL), raw(fields)


def round_trip():
    """The template gets a call and its result in the next request."""
    function = {'type': 'function', 'function': {'name': 'size', 'description': 'd', 'parameters': {
        'type': 'object', 'properties': {}}}}
    call = {'id': 'abcdefghi', 'type': 'function', 'function': {'name': 'size', 'arguments': '{"x": 17}'}}
    told = [USER, {'role': 'assistant', 'content': None, 'tool_calls': [call]},
            {'role': 'tool', 'tool_call_id': 'abcdefghi', 'name': 'size', 'content': 'result 23'}]
    text = prompt(told, tools=[function])
    assert re.search(r'"x": ?17', text) and 'result 23' in text and text.index('17') < text.index('result 23'), text


def thoughts():
    if FAMILY == 'Qwen3-0.6B':
        assert prompt([USER], chat_template_kwargs={'enable_thinking': False}).endswith('<think>\n\n</think>\n\n')
        assert '<think>' not in prompt([USER])
        earlier = {'role': 'assistant', 'content': 'so', 'reasoning_content': 'it was thought'}
        assert '<think>\nit was thought\n</think>\n\nso' in prompt([USER, earlier])
        assert 'it was thought' in prompt([USER, {'role': 'assistant', 'content': 'so', 'reasoning': 'it was thought'}])
    if FAMILY == 'gpt-oss':
        call = {'id': 'abcdefghi', 'type': 'function', 'function': {'name': 'size', 'arguments': '{}'}}
        earlier = {'role': 'assistant', 'content': None, 'tool_calls': [call], 'reasoning_content': 'it was thought'}
        assert '<|channel|>analysis<|message|>it was thought<|end|>' in prompt([USER, earlier])
        return
    got = both(messages=[USER], tools=TOOLS if FAMILY else None, **written('<think>\nHm.\n</think>\n\nYes.'))
    assert got == ({'reasoning_content': 'Hm.', 'content': 'Yes.'}, 'stop'), got


test_tools.BASE = {'temperature': 1.0, 'max_tokens': 600}
if FAMILY:
    case(required)
    if FAMILIES[FAMILY] != 'granite':  # families whose templates do not write calls
        case(round_trip)
case(thoughts)
run()
