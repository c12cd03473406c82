"""test_answers.py URL - answers in the form of each model family: the parts of each message, whole, streamed, and cut
at every token."""
import sys

import test_tools
from scripts import SCRIPTS
from test_tools import ask, both, plain, streamed

from client import case, run

FUNCTIONS = [{'type': 'function', 'function': {'name': name}} for name in ('add', 'stop')]
MARKS = ('<tool_call', '</tool_call', '<|', '[TOOL', '[ARGS', 'think>', 'tool_name', '"name"', 'response>')


def script(i, **fields):
    return dict({'messages': [{'role': 'user', 'content': str(i)}], 'tools': FUNCTIONS, 'max_tokens': 500}, **fields)


def expected(reasoning, content, calls):
    parts = {name: text for name, text in (('reasoning_content', reasoning), ('content', content)) if text}
    return dict(parts, tool_calls=calls) if calls else parts


@case
def answers():
    for i, (_, text, reasoning, content, calls) in enumerate(SCRIPTS):
        got = both(**script(i))
        assert got == (expected(reasoning, content, calls), 'tool_calls' if calls else 'stop'), (text, got)
        message, _, pieces = streamed(**script(i))
        for part, whole in (('reasoning_content', reasoning), ('content', content)):
            assert pieces.get(part, 0) >= len(whole) // 20, (i, pieces)
        assert not calls or pieces['tool_calls'] > 10, (i, pieces)


@case
def one_call():
    for i, (_, text, reasoning, content, calls) in enumerate(SCRIPTS):
        got = both(**script(i, parallel_tool_calls=False))
        assert got == (expected(reasoning, content, calls[:1]), 'tool_calls' if calls else 'stop'), (text, got)


@case
def cut():
    """An answer that is cut at any token is the beginning of the whole answer, also as a stream."""
    for i, (_, text, reasoning, content, calls) in enumerate(SCRIPTS):
        if content.startswith('{"name'):
            continue
        tokens = len(ask(**script(i, return_token_ids=True))['token_ids'])
        for most in range(1, tokens):
            got, finish = both(**script(i, max_tokens=most))
            assert finish == 'length', (i, most, finish)
            thoughts = got.get('reasoning_content', '').rstrip('\ufffd')  # may end within a mark
            assert reasoning.startswith(thoughts[:len(reasoning)]) and len(thoughts) < len(reasoning) + 12, (i, most, got)
            for (name, begun), (full_name, arguments) in zip(got.get('tool_calls', []), calls):
                assert name == full_name and arguments.startswith(begun.rstrip('\ufffd')), (i, most, got)
        assert both(**script(i, max_tokens=tokens))[0] == expected(reasoning, content, calls)


@case
def no_leaks():
    """No event of a stream has a part of the markup."""
    for i, (_, text, _, _, calls) in enumerate(SCRIPTS):
        if not calls:
            continue
        for event in test_tools.server.stream('/v1/chat/completions', **script(i)):
            for choice in event['choices']:
                said = (choice['delta'].get('content') or '') + (choice['delta'].get('reasoning_content') or '')
                assert not any(mark in said for mark in MARKS), (i, said)


@case
def no_tools():
    """Without tools there are no calls, but thoughts and channels are separated."""
    for i, (_, text, reasoning, content, calls) in enumerate(SCRIPTS):
        got, finish = both(**script(i, tools=None))
        assert finish == 'stop' and 'tool_calls' not in got and got.get('reasoning_content', '') == reasoning, (i, got)
        assert calls or got.get('content', '') == content, (i, got)


@case
def thoughts_in_content():
    for i, (_, text, reasoning, content, calls) in enumerate(SCRIPTS):
        got, _ = both(**script(i, reasoning_format='none'))
        if reasoning:
            assert reasoning in got['content'] and 'reasoning_content' not in got and got.get('tool_calls', []) == calls, (i, got)


@case
def grammar_ends_thoughts():
    """A grammar leaves no room for thoughts, so the server closes thoughts that the prompt has opened."""
    def ending(i, **fields):
        return ''.join(ask(**script(i, max_tokens=1, return_held=True, **fields))['prompt_pieces'])
    opened, channels, other = SCRIPTS.index(next(s for s in SCRIPTS if s[0] == '<think>\n')), next(
        i for i, s in enumerate(SCRIPTS) if s[0].startswith('<|start|>')), 0
    assert ending(opened, regex='[0-9]{5}').endswith('</think>\n\n') and not ending(opened).endswith('</think>\n\n')
    assert ending(channels, regex='[0-9]{5}').endswith('<|channel|>final<|message|>')
    for i in (opened, channels, other):
        got, finish = both(**script(i, regex='[0-9]{5}'))
        assert len(got['content']) == 5 and got['content'].isdigit() and finish == 'stop' and len(got) == 1, (i, got)


@case
def control_tokens():
    """A required call may consist of control tokens."""
    ids = [test_tools.server.post('/tokenize', content=name)['tokens'][0] for name in ('[TOOL_CALLS]', '[ARGS]')]
    schema = {'type': 'object', 'properties': {'x': {'enum': [1, 2]}}, 'required': ['x']}
    fields = {'messages': [{'role': 'user', 'content': 'x'}], 'max_tokens': 500, 'tool_choice': 'required', 'temperature': 1.0,
              'tools': [{'type': 'function', 'function': {'name': 'add', 'parameters': schema}}],
              'chat_template_kwargs': {'form': 'args'}, 'logit_bias': {str(i): 100 for i in ids}}
    for several in (False, True):
        fields['parallel_tool_calls'] = several
        tokens = ask(return_token_ids=True, **fields)['token_ids']
        assert tokens[0] == ids[0] and ids[1] in tokens, tokens
        got, finish = both(**fields)
        assert list(got) == ['tool_calls'] and (finish == 'tool_calls' or several), (got, finish)
        assert (len(got['tool_calls']) > 1) == several, 'the bias prefers a further call to the end'


if __name__ == '__main__':
    test_tools.BASE = {'temperature': 1.0}
    run()
