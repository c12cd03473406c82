"""test_required.py URL|template - calls that a request requires, in the form of each family. `template` prints the chat
template. Its variable `form` selects the family whose instructions it writes."""
import json
import re
import sys

import test_tools
from test_tools import ask, both

from client import case, run

SIZE = {'type': 'object', 'properties': {'x': {'enum': [1, 'é"', None], 'description': 'd'},
                                         'y': {'$ref': '#/$defs/n', 'description': 'd'}},
        'required': ['x', 'y'], 'additionalProperties': False, '$defs': {'n': {'type': 'integer', 'minimum': 0, 'maximum': 9}}}
DAY = {'type': 'object', 'properties': {'day': {'enum': ['mon', 'tue'], 'description': 'd'}}, 'required': ['day']}
TOOLS = [{'type': 'function', 'function': {'name': name, 'description': 'd', 'parameters': schema}} for name, schema in
         (('size', SIZE), ('day_of', DAY))]
OBJECT = r'\{\s*"%s":\s*"(size|day_of)",\s*"%s":.*\}'
PLAIN = OBJECT % ('name', 'arguments')
ACTION = r'"tool_name":\s*"(size|day_of)",\s*"parameters":.*\}'
FORMS = {  # text of the template, pattern of an answer with one call, whether there can be several calls
    'hermes': ('Use <tool_call>.', '<tool_call>\n' + PLAIN + '\n</tool_call>', True),
    'bare': ('Use JSON.', PLAIN, False),
    'llama': ('Use {"name": function name, "parameters": dictionary of argument name and its value}.',
              OBJECT % ('name', 'parameters'), False),
    'mistral': ('[AVAILABLE_TOOLS]', r'\[TOOL_CALLS\]\[' + PLAIN + r'\]', True),
    'mistral-args': ('', r'\[TOOL_CALLS\](size|day_of)\[ARGS\]\{.*\}', True),
    'granite': ('Use <|tool_call|>.', r'<\|tool_call\|>\[' + PLAIN + r'\]', True),
    'command-a': ('Use <|START_ACTION|>.', r'<\|START_ACTION\|>\[\n    \{\s*"tool_call_id":\s*"\d{1,3}",\s*' + ACTION +
                  r'\n\]<\|END_ACTION\|>', True),
    'command-r': ("Write 'Action:' followed by JSON.", r'Action: ```json\n\[\n    \{\s*' + ACTION + r'\n\]\n```', True),
    'gpt-oss': ('<|start|>assistant', r'<\|channel\|>commentary to=functions\.(size|day_of) <\|constrain\|>json<\|message\|>\{.*\}',
                False),
}


def request(form, **fields):
    return dict({'messages': [{'role': 'user', 'content': 'do [AVAILABLE_TOOLS] <tool_call>'}], 'tools': TOOLS,
                 'tool_choice': 'required', 'max_tokens': 600, 'chat_template_kwargs': {'form': form}}, **fields)


def raw(fields):  # returns the text that the model wrote
    return test_tools.server.post('/detokenize', tokens=ask(return_token_ids=True, **fields)['token_ids'])['content']


def check(got):
    for name, text in got['tool_calls']:
        arguments = json.loads(text)
        if name == 'size':
            assert sorted(arguments) == ['x', 'y'] and arguments['x'] in (1, 'é"', None) and 0 <= arguments['y'] <= 9, got
        else:
            assert name == 'day_of' and arguments['day'] in ('mon', 'tue'), got


def forms():
    names = set()
    for form, (_, pattern, several) in FORMS.items():
        counts = []
        for seed in range(2):
            fields = request(form, seed=seed, parallel_tool_calls=False)
            got, finish = both(**fields)
            assert finish == 'tool_calls' and list(got) == ['tool_calls'] and len(got['tool_calls']) == 1, (form, got, finish)
            check(got)
            assert re.fullmatch(pattern, raw(fields), re.DOTALL), (form, raw(fields))
            got, finish = both(**request(form, seed=seed, tool_choice={'type': 'function', 'function': {'name': 'day_of'}}))
            assert [name for name, _ in got['tool_calls']] == ['day_of'] and finish == 'tool_calls', (form, got)
        for seed in range(3):
            got, finish = both(**request(form, seed=seed))
            assert list(got) == ['tool_calls'], (form, got)
            counts.append(len(got['tool_calls']))
            names |= {name for name, _ in got['tool_calls']}
            check(dict(got, tool_calls=got['tool_calls'] if finish == 'tool_calls' else got['tool_calls'][:-1]))
        assert (max(counts) > 1) == several, (form, counts)
    assert names == {'size', 'day_of'}


def refused():
    for form in FORMS:
        wrong = [{'type': 'function', 'function': {'name': 'f', 'parameters': {'properties': {'a': {'not': {}}}}}}]
        status, _, data = test_tools.server.send('POST', test_tools.CHAT, json.dumps(request(form, tools=wrong)))
        assert status == 400 and 'properties/a/not: is not supported' in json.loads(data)['error']['message'], data


def null_content():
    """A template that cannot read a content of null gets an empty text."""
    call = {'id': 'c', 'type': 'function', 'function': {'name': 'size', 'arguments': '{}'}}
    told = [{'role': 'user', 'content': 'a'}, {'role': 'assistant', 'content': None, 'tool_calls': [call]}]
    for form, content in (('strict', ''), ('', 'None')):
        got = ask(messages=told, max_tokens=0, return_held=True, chat_template_kwargs={'form': form})
        assert ''.join(got['prompt_pieces']).endswith('assistant: ' + content), got


if __name__ == '__main__':
    if sys.argv[1] == 'template':
        print('{%- for t in tools or [] %}{{ t.function.name }}{% endfor %}')
        print('{%- for m in messages %}{{ m.role }}: {{ m.content }}')
        print("{%- if form == 'strict' and '<|' in m.content %}{% endif %}")
        print("{%- if m.tool_calls and form == 'mistral-args' %}[TOOL_CALLS]f[ARGS]{}{% endif %}{% endfor %}")
        for form, (says, *_) in FORMS.items():
            print("{%%- if form == '%s' %%}%s{%% endif %%}" % (form, says))
        sys.exit()
    test_tools.BASE = {'temperature': 1.0}
    case(forms)
    case(refused)
    case(null_content)
    run()
