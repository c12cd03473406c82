"""test_tools.py URL tagged|bare - calls of functions: forced ones, those that an answer contains, streamed, refused."""
import json
import re
import sys

from client import Server, case, run

server, what = Server(sys.argv[1]), sys.argv[2]
CHAT = '/v1/chat/completions'
ASK = [{'role': 'user', 'content': 'add'}]
ADD = {'name': 'add', 'description': 'adds', 'parameters': {
    'type': 'object', 'properties': {'x': {'type': 'integer', 'minimum': 0, 'maximum': 99}, 'y': {'$ref': '#/$defs/n'}},
    'required': ['x', 'y'], '$defs': {'n': {'enum': [1, None, 'q"']}}}}
STOP = {'name': 'stop'}
TOOLS = [{'type': 'function', 'function': ADD}, {'type': 'function', 'function': STOP}]
BASE = {'messages': ASK, 'tools': TOOLS, 'temperature': 1.0, 'max_tokens': 300}


def ask(**fields):
    return server.post(CHAT, **{**BASE, **fields})['choices'][0]


def streamed(**fields):
    """The text, the calls with their arguments joined, and the reason of a stream."""
    text, calls, finish = '', {}, None
    for event in server.stream(CHAT, **{**BASE, **fields}):
        for choice in event['choices']:
            text += choice['delta'].get('content') or ''
            finish = choice['finish_reason'] or finish
            for part in choice['delta'].get('tool_calls', []):
                call = calls.setdefault(part['index'], {'id': '', 'name': '', 'arguments': ''})
                call['id'] += part.get('id', '')
                call['name'] += part['function'].get('name', '')
                call['arguments'] += part['function'].get('arguments', '')
    return text, [calls[i] for i in sorted(calls)], finish


def check_call(call):
    assert call['type'] == 'function' and call['id'].startswith('call_'), call
    arguments = json.loads(call['function']['arguments'])
    if call['function']['name'] == 'add':
        assert 0 <= arguments['x'] <= 99 and arguments['y'] in (1, None, 'q"'), call
    else:
        assert call['function']['name'] == 'stop' and isinstance(arguments, dict), call


def forced():
    """Each answer is a valid call; the same seed gives the same call, also as a stream."""
    for seed in range(6):
        choice = ask(tool_choice={'type': 'function', 'function': {'name': 'add'}}, seed=seed)
        calls = choice['message']['tool_calls']
        assert choice['finish_reason'] == 'tool_calls' and choice['message']['content'] is None and len(calls) == 1
        assert calls[0]['function']['name'] == 'add'
        check_call(calls[0])
        text, others, finish = streamed(tool_choice={'type': 'function', 'function': {'name': 'add'}}, seed=seed)
        assert (text, finish) == ('', 'tool_calls')
        assert [(c['name'], c['arguments']) for c in others] == [('add', calls[0]['function']['arguments'])]
        any_of_one, named = [ask(tool_choice=each, seed=seed, tools=TOOLS[:1])['message']['tool_calls'][0]['function']
                             for each in ('required', {'type': 'function', 'function': {'name': 'add'}})]
        assert any_of_one == named, 'of one function it is the same choice'
    prompt = ''.join(ask(tool_choice='required', max_tokens=0, return_held=True)['prompt_pieces'])
    assert prompt.endswith('<tool_call>\n') == (what == 'tagged'), prompt
    for seed in range(6):
        choice = ask(tool_choice='required', seed=seed, max_tokens=60)
        if choice['finish_reason'] == 'length':  # an object of any members may be long
            assert 'tool_calls' not in choice['message']
            continue
        check_call(choice['message']['tool_calls'][0])


def written(text):
    """The model writes this text."""
    return {'regex': re.sub(r'([^A-Za-z0-9])', r'\\\1', text), 'temperature': 0}


ONE = '{"name": "add", "arguments": {"x": 5, "y": "é"}}'
FORMS = [  # text, what is left as content, names, arguments
    ('<tool_call>\n' + ONE + '\n</tool_call>', None, ['add'], [{'x': 5, 'y': 'é'}]),
    ('I add. \n<tool_call>' + ONE + '</tool_call>\n<tool_call>\n{"name": "stop"}</tool_call>', 'I add.',
     ['add', 'stop'], [{'x': 5, 'y': 'é'}, {}]),
    ('<tool_call>' + ONE, None, ['add'], [{'x': 5, 'y': 'é'}]),
    ('{"name": "add", "parameters": {"x": 1}}', None, ['add'], [{'x': 1}]),
    (' [{"name": "stop", "arguments": {}}, ' + ONE + ']', None, ['stop', 'add'], [{}, {'x': 5, 'y': 'é'}]),
    ('[TOOL_CALLS] [' + ONE + ']', None, ['add'], [{'x': 5, 'y': 'é'}]),
    ('<|python_tag|>{"name": "stop", "parameters": {}}', None, ['stop'], [{}]),
    ('{"name": "stop", "arguments": "{\\"a\\": 1}"}', None, ['stop'], [{'a': 1}]),
]
TEXTS = ['plain', '{"name": "other", "arguments": {}}', '{"name": "add", "arguments": [1]}', '{"name": "add"', '[1]', '[]',
         '<tool_call>no</tool_call>', 'a < b', 'x <tool', '{"a": 1}', ' blank ', '<tool_call>' + ONE + '</tool_call><tool_call>x',
         '[TOOL_CALLS]']


def forms():
    for text, content, names, arguments in FORMS:
        choice = ask(**written(text))
        assert choice['finish_reason'] == 'tool_calls' and choice['message']['content'] == content, (text, choice)
        calls = choice['message']['tool_calls']
        assert [c['function']['name'] for c in calls] == names, choice
        assert [json.loads(c['function']['arguments']) for c in calls] == arguments, choice
        assert len({c['id'] for c in calls}) == len(calls)
        got, others, finish = streamed(**written(text))
        assert (got or None, finish) == (content, 'tool_calls'), (text, got)
        assert [(c['name'], json.loads(c['arguments'])) for c in others] == list(zip(names, arguments)), others
        first = ask(parallel_tool_calls=False, **written(text))['message']['tool_calls']
        assert [c['function']['name'] for c in first] == names[:1]


def texts():
    """Other answers stay texts, to the byte; so does every answer without tools, and one that was cut."""
    for text in TEXTS + [form[0] for form in FORMS]:
        fields = written(text) if text in TEXTS else dict(written(text), tool_choice='none')
        choice = ask(**fields)
        assert choice['message']['content'] == text and choice['finish_reason'] == 'stop', (text, choice)
        assert 'tool_calls' not in choice['message']
        assert streamed(**fields) == (text, [], 'stop'), text
    cut = ask(**dict(written(FORMS[0][0]), max_tokens=20))
    assert cut['finish_reason'] == 'length' and 'tool_calls' not in cut['message']


def prompts():
    """The template sees the tools, and earlier arguments as values."""
    def prompt(messages, **fields):
        return ''.join(server.post(CHAT, messages=messages, max_tokens=0, return_held=True, **fields)['choices'][0][
            'prompt_pieces'])
    assert 'tools=add stop;' in prompt(ASK, tools=TOOLS)
    assert 'tools=' not in prompt(ASK) and 'tools=' not in prompt(ASK, tools=TOOLS, tool_choice='none')
    call = {'id': 'c1', 'type': 'function', 'function': {'name': 'add', 'arguments': '{"x": [1, null]}'}}
    told = prompt([*ASK, {'role': 'assistant', 'content': None, 'tool_calls': [call]},
                   {'role': 'tool', 'tool_call_id': 'c1', 'content': '7'}])
    assert 'call add {"x": [1, null]}' in told and 'tool: 7' in told, told


def refused():
    named = {'type': 'function', 'function': {'name': 'nosuch'}}
    for field, fields in (('tools', {'tools': 'add'}), ('tools', {'tools': [{'type': 'web_search'}]}),
                          ('tools', {'tools': [{'type': 'function', 'function': {}}]}),
                          ('tools', {'tools': [TOOLS[0], TOOLS[0]]}), ('tool_choice', {'tool_choice': 'always'}),
                          ('tools', {'tools': [{'type': 'function', 'function': {'name': 'f', 'parameters': 3}}]}),
                          ('tool_choice', {'tool_choice': named}), ('tool_choice', {'tool_choice': 'required', 'tools': []}),
                          ('tool_choice', {'tool_choice': 'required', 'response_format': {'type': 'json_object'}})):
        server.refused(CHAT, 400, field, None, **{**BASE, **fields})
    tools = [{'type': 'function', 'function': {'name': 'f', 'parameters': {'properties': {'a': {'not': {}}}}}}]
    status, _, data = server.send('POST', CHAT, json.dumps(dict(BASE, tools=tools, tool_choice='required')))
    assert status == 400 and 'properties/a/not: is not supported' in json.loads(data)['error']['message'], data
    assert ask(tools=tools, max_tokens=1), 'without a forced call the schema is for the template alone'


for function in (forced, forms, texts, prompts, refused):
    case(function)
run()
