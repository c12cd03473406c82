"""test_tools.py URL - calls of functions: forced ones, those that an answer contains, streamed, refused."""
import json
import re
import sys

from client import Server, case, run

server = Server(sys.argv[1])
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
    """Returns a stream's message with its parts joined, the finish reason, and the number of pieces of each part."""
    message, finish, pieces = {'reasoning_content': '', 'content': '', 'tool_calls': []}, None, {}
    for event in server.stream(CHAT, **{**BASE, **fields}):
        for choice in event['choices']:
            assert finish is None, 'nothing follows the reason'
            delta, finish = choice['delta'], choice['finish_reason']
            parts = [name for name in message if delta.get(name)]
            assert len(parts) <= 1, 'one part in each event'
            for name in parts:
                pieces[name] = pieces.get(name, 0) + 1
            message['content'] += delta.get('content') or ''
            message['reasoning_content'] += delta.get('reasoning_content') or ''
            for part in delta.get('tool_calls', []):
                calls, call = message['tool_calls'], part['function']
                if part['index'] == len(calls):
                    assert sorted(part) == ['function', 'id', 'index', 'type'] and part['type'] == 'function'
                    assert sorted(call) == ['arguments', 'name'] and call['arguments'] == '', part
                    calls.append({'id': part['id'], 'type': 'function', 'function': dict(call)})
                else:
                    assert part['index'] == len(calls) - 1 and sorted(part) == ['function', 'index'], part
                    assert list(call) == ['arguments'] and call['arguments'], part
                    calls[-1]['function']['arguments'] += call['arguments']
    return message, finish, pieces


def plain(message):
    """Returns the message's nonempty parts, with calls as pairs."""
    parts = {name: message[name] for name in ('reasoning_content', 'content') if message.get(name)}
    calls = [(call['function']['name'], call['function']['arguments']) for call in message.get('tool_calls') or []]
    return dict(parts, tool_calls=calls) if calls else parts


def both(**fields):
    """Returns the message and the finish reason of an answer. Checks that a stream gives the same."""
    choice = ask(**fields)
    message, finish, _ = streamed(**fields)
    assert (plain(message), finish) == (plain(choice['message']), choice['finish_reason']), (fields, message, choice)
    return plain(choice['message']), finish


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
        message, finish, pieces = streamed(tool_choice={'type': 'function', 'function': {'name': 'add'}}, seed=seed)
        assert (plain(message), finish) == (plain(choice['message']), 'tool_calls')
        assert pieces['tool_calls'] > len(calls[0]['function']['arguments']) / 2, 'a piece for each token, which is a byte'
        any_of_one, named = [ask(tool_choice=each, seed=seed, tools=TOOLS[:1])['message']['tool_calls'][0]['function']
                             for each in ('required', {'type': 'function', 'function': {'name': 'add'}})]
        assert any_of_one == named, 'of one function it is the same choice'
    for seed in range(6):
        choice = ask(tool_choice='required', seed=seed, max_tokens=60)
        if choice['finish_reason'] == 'length':  # an object with arbitrary members may be long
            continue
        check_call(choice['message']['tool_calls'][0])


def written(text):
    """Returns the fields of a request whose answer is this text."""
    return {'regex': re.sub(r'([^A-Za-z0-9])', r'\\\1', text), 'temperature': 0}


ONE = '{"name": "add", "arguments": {"x": 5, "y": "é"}}'
FORMS = [  # text, the part that stays content, names, arguments
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
         '<tool_call>no</tool_call>', 'a < b', 'x <tool', '{"a": 1}', ' blank ', '[TOOL_CALLS]', '<|channel|>final<|message|>a']


def forms():
    for text, content, names, arguments in FORMS:
        choice = ask(**written(text))
        assert choice['finish_reason'] == 'tool_calls' and choice['message']['content'] == content, (text, choice)
        calls = choice['message']['tool_calls']
        assert [c['function']['name'] for c in calls] == names, choice
        assert [json.loads(c['function']['arguments']) for c in calls] == arguments, choice
        assert len({c['id'] for c in calls}) == len(calls)
        assert both(**written(text)) == (plain(choice['message']), 'tool_calls')
        first = ask(parallel_tool_calls=False, **written(text))['message']['tool_calls']
        assert [c['function']['name'] for c in first] == names[:1]
        one, finish = both(parallel_tool_calls=False, **written(text))
        assert len(one['tool_calls']) == 1 and finish == 'tool_calls'


def texts():
    """Other answers stay texts, to the byte; so does every answer without tools."""
    for text in TEXTS + [form[0] for form in FORMS]:
        fields = written(text) if text in TEXTS else dict(written(text), tool_choice='none')
        assert both(**fields) == ({'content': text}, 'stop'), text


def cut():
    """A call that is cut keeps the arguments so far, and the finish reason is not tool_calls."""
    text = 'I add.\n<tool_call>' + ONE
    for most in range(1, len(text.encode()) + 2):
        fields = dict(written(text), max_tokens=most)
        got, finish = both(**fields)
        assert finish == ('length' if most <= len(text.encode()) else 'tool_calls'), (most, finish)
        done = text.encode()[:most].decode(errors='ignore')
        arguments = '{"x": 5, "y": "é"}'
        if '"arguments": {' in done:
            assert got['content'] == 'I add.', got
            name, begun = got['tool_calls'][0]
            assert name == 'add' and begun and arguments.startswith(begun.rstrip('\ufffd')), got
        else:
            assert 'tool_calls' not in got and done.startswith(got['content'].rstrip('\ufffd')), (done, got)
    once = text.replace('5', '5\n\n')
    got, finish = both(**dict(written(once), stop=['\n\n']))
    assert got['tool_calls'] == [('add', '{"x": 5')] and finish == 'stop', (got, finish)


def hostile():
    """Wrong JSON after a call has begun is passed on as the model wrote it; the rest is content."""
    deep = '{"a":' * 200
    for text, expected in (('<tool_call>{"name": "add", "arguments": {"x": }}</tool_call>', {'tool_calls': [('add', '{"x": }')]}),
                           ('<tool_call>' + ONE + '</tool_call><tool_call>x',
                            {'content': '<tool_call>x', 'tool_calls': [('add', '{"x": 5, "y": "é"}')]}),
                           ('{"name": "add", "name": "stop", "arguments": {"a": 1, "a": 2}}', {'tool_calls': [('add', '{"a": 1, "a": 2}')]}),
                           ('{"name": "add", "arguments": ' + deep + '}' * 200 + '}', {'tool_calls': [('add', deep + '}' * 200)]}),
                           ('{"name": "add", "arguments": ' + deep, {'tool_calls': [('add', deep)]})):
        got, finish = both(**dict(written(text), max_tokens=1900))
        assert got == expected, (text[:80], str(got)[:80])
        assert finish == ('stop' if text.endswith(deep) else 'tool_calls'), (text[:80], finish)


def reasoning():
    text = '<think>\nHm.\n\nSo é.\n</think>\n\nYes.'
    assert both(**written(text)) == ({'reasoning_content': 'Hm.\n\nSo é.', 'content': 'Yes.'}, 'stop')
    assert both(**written(text + '<tool_call>' + ONE)) == (
        {'reasoning_content': 'Hm.\n\nSo é.', 'content': 'Yes.', 'tool_calls': [('add', '{"x": 5, "y": "é"}')]}, 'tool_calls')
    for name in ('auto', 'deepseek'):
        assert both(reasoning_format=name, **written(text))[0]['content'] == 'Yes.'
    assert both(reasoning_format='none', **written(text)) == ({'content': text}, 'stop')
    message, finish, pieces = streamed(**written(text))
    assert pieces['reasoning_content'] == 7 and pieces['content'] == 4, pieces
    got, finish = both(**dict(written(text), max_tokens=11))
    assert (got, finish) == ({'reasoning_content': 'Hm.'}, 'length')
    assert ask(**dict(written(text), max_tokens=11))['message']['content'] == ''
    server.refused(CHAT, 400, 'reasoning_format', messages=ASK, reasoning_format='deep')


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
    for name in ('reasoning_content', 'reasoning'):
        assert 'thought: so.' in prompt([*ASK, {'role': 'assistant', 'content': 'x', 'reasoning_content': None, name: 'so.'}, *ASK])


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


if __name__ == '__main__':
    for function in (forced, forms, texts, cut, hostile, reasoning, prompts, refused):
        case(function)
    run()
