"""test_grammar.py URL WHAT - answers that must match a regular expression or a JSON schema. The tokens of the model
`words` are whole words; the model `bytes` can write any text."""
import json
import re
import sys

from client import Server, case, run, together

try:
    import jsonschema
except ImportError:
    jsonschema = None

server, what = Server(sys.argv[1]), sys.argv[2]
COMPLETIONS, CHAT = '/v1/completions', '/v1/chat/completions'
HELLO = [{'role': 'user', 'content': 'the red kettle'}]


def ask(path, **fields):
    """Returns the choices of an answer. The member `text` of each has its text."""
    prompt = {'prompt': 'the red kettle'} if path == COMPLETIONS else {'messages': HELLO}
    got = server.post(path, **{**prompt, 'max_tokens': 60, 'return_token_ids': True, **fields})
    for choice in got['choices']:
        choice.setdefault('text', choice.get('message', {}).get('content'))
    return got['choices']


def streamed(path, **fields):
    """Like `ask`, from a stream."""
    prompt = {'prompt': 'the red kettle'} if path == COMPLETIONS else {'messages': HELLO}
    choices = {}
    for event in server.stream(path, **{**prompt, 'max_tokens': 60, 'return_token_ids': True, **fields}):
        for part in event['choices']:
            choice = choices.setdefault(part['index'], {'text': '', 'token_ids': [], 'finish_reason': None})
            choice['text'] += part['text'] if path == COMPLETIONS else part['delta'].get('content') or ''
            choice['token_ids'] += part['token_ids']
            choice['finish_reason'] = part['finish_reason'] or choice['finish_reason']
    return [choices[i] for i in sorted(choices)]


def said(choices):
    return [(choice['text'], choice['token_ids'], choice['finish_reason']) for choice in choices]


def refused(field, holds='', path=CHAT, **fields):
    """Like Server.refused, for messages that name a place in a schema, as in #/properties/a."""
    status, _, data = server.send('POST', path, json.dumps(
        {**({'prompt': 'a'} if path == COMPLETIONS else {'messages': HELLO}), **fields}))
    error = json.loads(data)['error']
    assert status == 400 and error['param'] == field and error['message'].startswith(field + ': '), (fields, error)
    assert holds in error['message'], error


# ---- whole words ----

def words_match():
    for path, pattern in ((COMPLETIONS, r'( the| old){1,3} merchant'), (COMPLETIONS, r' [a-z]+ [0-9]{2}( \.)?'),
                          (CHAT, r'[a-z]+'), (CHAT, r'(yes|the number is [0-9]{2})')):
        for sampling in ({'temperature': 0}, {'seed': 5, 'n': 8}, {'seed': 9, 'n': 4, 'temperature': 5}, {'top_k': 3}):
            for choice in ask(path, regex=pattern, **sampling):
                assert re.fullmatch(pattern, choice['text']) and choice['finish_reason'] == 'stop', choice
    texts = {choice['text'] for choice in ask(CHAT, regex='[a-z]+( [a-z]+){2}', n=16)}
    assert len(texts) > 4, texts  # the answers are drawn, so they differ


def an_answer_that_matches_anyway_is_the_same():
    for path in (COMPLETIONS, CHAT):
        for sampling in ({'temperature': 0}, {'seed': 3, 'n': 3}):
            sampling['logit_bias'] = {'17': -100}  # a control token, which has no text
            plain = said(ask(path, max_tokens=12, **sampling))
            assert said(ask(path, max_tokens=12, regex='(?s).*', **sampling)) == plain


def how_it_ends():
    endless = ask(COMPLETIONS, regex='( [a-z]+| [0-9]+| [.:?])*', max_tokens=9, ignore_eos=False, temperature=0,
                  logit_bias={'16': -100})[0]
    assert len(endless['token_ids']) == 9 and endless['finish_reason'] == 'length'
    stuck = ask(COMPLETIONS, regex=' [a-z]+ [0-9]{3}')[0]  # no token has three digits
    assert len(stuck['token_ids']) == 2 and stuck['finish_reason'] == 'length', stuck
    never = ask(COMPLETIONS, regex='@')[0]
    assert never['token_ids'] == [] and never['finish_reason'] == 'length', never
    one = {'regex': ' the merchant', 'temperature': 0}
    for more in ({}, {'ignore_eos': True}, {'logit_bias': {'16': -100}}, {'max_tokens': 3}, {'max_tokens': None}):
        choice = ask(COMPLETIONS, **one, **more)[0]
        assert choice['text'] == ' the merchant' and choice['finish_reason'] == 'stop', (more, choice)
    assert ask(COMPLETIONS, **one, max_tokens=2)[0]['finish_reason'] == 'length'
    assert ask(COMPLETIONS, **one, max_tokens=0)[0]['text'] == ''
    cut = ask(COMPLETIONS, **one, stop='mer')[0]
    assert cut['text'] == ' the ' and cut['finish_reason'] == 'stop', cut


def beside_other_fields():
    pattern = ' [a-z]+ [0-9]{2}'
    plain = ask(COMPLETIONS, regex=pattern, seed=4)[0]['text']
    for prompt in ('the', ''):
        echo = ask(COMPLETIONS, regex=pattern if prompt else pattern[1:], seed=4, prompt=prompt, echo=True)[0]
        assert re.fullmatch(prompt + (pattern if prompt else pattern[1:]), echo['text']), echo
    for kv in ('streaming:budget=32', 'snapkv:budget=40', 'quest:budget=32,page=8'):
        assert re.fullmatch(pattern, ask(COMPLETIONS, regex=pattern, kv=kv)[0]['text'])
    for path, fields in ((COMPLETIONS, {'logprobs': 2}), (CHAT, {'logprobs': True, 'top_logprobs': 2})):
        free, bound = [ask(path, temperature=0, max_tokens=2, **more, **fields)[0]['logprobs']
                       for more in ({}, {'regex': '.*[0-9]+'})]
        chat = path == CHAT
        assert len(bound['content'] if chat else bound['tokens']) == 2
        first = [one['content'][0]['top_logprobs'] if chat else one['top_logprobs'][0] for one in (free, bound)]
        assert first[0] == first[1], first  # log probabilities also cover tokens that the grammar refuses
    assert ask(COMPLETIONS, guided_regex=pattern, seed=4)[0]['text'] == plain
    assert ask(COMPLETIONS, structured_outputs={'regex': pattern}, seed=4)[0]['text'] == plain
    assert ask(COMPLETIONS, regex='', seed=4)[0]['text'] == ask(COMPLETIONS, seed=4)[0]['text']
    biased = ask(COMPLETIONS, regex=' (the|old)', temperature=0, logit_bias={'0': -100})[0]['text']
    assert biased == ' old', biased
    penalized = ask(COMPLETIONS, regex='( the| old){6}', temperature=0, frequency_penalty=2)[0]['text']
    assert re.fullmatch('( the| old){6}', penalized) and len(set(penalized.split())) == 2, penalized


def a_stream_is_the_same():
    for path, pattern in ((COMPLETIONS, ' [a-z]+ [0-9]{2}( [a-z]+){3}'), (CHAT, '[a-z]+( [a-z]+){4}')):
        for fields in ({'seed': 2, 'n': 3}, {'temperature': 0}, {'seed': 2, 'stop': ['a', 'o', 'r']}):
            assert said(streamed(path, regex=pattern, **fields)) == said(ask(path, regex=pattern, **fields))


def others_change_nothing():
    requests = [{'regex': pattern, 'seed': seed, 'n': n, 'prompt': prompt}
                for pattern in (' [a-z]+( [0-9]{2}){4}', '( the| old| red){1,9}', None) for seed in (1, 2) for n in (1, 2)
                for prompt in ('the', 'the old sailor')]
    alone = [said(ask(COMPLETIONS, **request)) for request in requests]
    for _ in range(2):
        assert together([lambda request=request: said(ask(COMPLETIONS, **request)) for request in requests]) == alone


def cached_sessions():
    prompt = server.post('/tokenize', content='golden lemon', add_special=True)['tokens']  # used only here
    for turn in range(3):
        fields = dict(prompt=prompt, regex='( [a-z]+){3}', seed=turn, max_tokens=20, return_token_ids=True)
        fresh, cached = [server.complete(**fields, cache_prompt=way) for way in (False, True)]
        assert fresh['choices'] == cached['choices']
        assert (cached['usage']['prompt_tokens_details']['cached_tokens'] > 0) == (turn > 0), cached['usage']
        prompt = prompt + fresh['choices'][0]['token_ids'] + [4]


def patterns_are_refused():
    for path in (COMPLETIONS, CHAT):
        refused('regex', 'byte 4: ', path, regex='[a-z')
        refused('regex', 'must be a text', path, regex=5)
        refused('guided_regex', 'too large', path, guided_regex='((((a{1,9}){9}){99}){99}){99}')
        refused('guided_regex', 'the request also has regex; give only one', path, guided_regex='a', regex='a')
        refused('json_schema', 'the request also has response_format; give only one', path, json_schema={},
                response_format={'type': 'json_object'})
        refused('structured_outputs', 'only one', path, structured_outputs={'regex': 'a', 'json_object': True})
        refused('structured_outputs', 'backend: not supported', path, structured_outputs={'backend': 'a'})
        for texts in ([], ['a', 5], 'a', {}):
            refused('guided_choice', 'array of strings', path, guided_choice=texts)
        refused('structured_outputs', '', path, structured_outputs={'regex': 5})
        refused('structured_outputs', '', path, structured_outputs='a')


def patterns_with_no_end_in_sight():
    """Patterns whose comparisons would take exponential time still give an answer, and the server continues."""
    for pattern in ('(?:a|b|[a-z ]|[a-z ]{2})*@', '(?:[a-z ]*[a-z ]*)*@'):
        choice = ask(COMPLETIONS, regex=pattern, max_tokens=400)[0]
        assert choice['finish_reason'] == 'length' and re.fullmatch('[a-z ]+', choice['text']), choice
    words_match()


# ---- any text ----

RIVER = {'type': 'object', 'properties': {'name': {'type': 'string', 'minLength': 1, 'maxLength': 6},
                                          'km': {'type': 'integer', 'minimum': 0, 'maximum': 9999},
                                          'sea': {'enum': ['Baltic', 'North', None]}},
         'required': ['name', 'km', 'sea'], 'additionalProperties': False}
SCHEMAS = [RIVER, {'const': None}, {'enum': [None, 'a']}, {'type': 'boolean'}, {'const': {'content': None, 'x': [1, 'é']}},
           {'type': 'array', 'items': {'type': 'number'}, 'minItems': 1, 'maxItems': 2},
           {'anyOf': [{'type': 'null'}, {'type': 'string', 'maxLength': 3}]},
           {'type': 'object', 'properties': {'content': {'const': None}}, 'required': ['content'],
            'additionalProperties': False}]


def valid(text, schema):
    value = json.loads(text)
    if schema is RIVER:
        assert list(value) == ['name', 'km', 'sea'] and 1 <= len(value['name']) <= 6, text
        assert isinstance(value['km'], int) and 0 <= value['km'] <= 9999, text
        assert value['sea'] in ('Baltic', 'North', None), text
    if 'const' in schema:
        assert value == schema['const'], text
    if jsonschema:
        jsonschema.validate(value, schema)
    return value


def formats(schema):
    """Every field that can give a schema."""
    return ({'response_format': {'type': 'json_schema', 'json_schema': {'name': 'a', 'strict': True, 'schema': schema}}},
            {'response_format': {'type': 'json_schema', 'schema': schema}}, {'json_schema': schema},
            {'json_schema': json.dumps(schema)}, {'guided_json': schema}, {'structured_outputs': {'json': schema}},
            {'response_format': {'type': 'json_schema', 'schema': None, 'json_schema': {
                'name': 'a', 'description': None, 'strict': None, 'schema': schema}}, 'json_schema': None})


def schemas_hold():
    for schema in SCHEMAS:
        for path in (COMPLETIONS, CHAT):
            for sampling in ({'temperature': 0}, {'seed': 1, 'n': 6}, {'seed': 1, 'n': 3, 'temperature': 4}):
                for choice in ask(path, json_schema=schema, max_tokens=600, **sampling):
                    assert choice['finish_reason'] == 'stop' or sampling == {'temperature': 0}, choice
                    if choice['finish_reason'] == 'stop':
                        valid(choice['text'], schema)


def all_ways_are_the_same():
    for schema in SCHEMAS[:3]:
        first, *rest = [said(ask(CHAT, max_tokens=400, seed=3, **fields)) for fields in formats(schema)]
        assert all(one == first for one in rest), (first, rest)
        assert said(streamed(CHAT, max_tokens=400, seed=3, json_schema=schema)) == first
    objects = [ask(CHAT, max_tokens=300, n=12, **fields) for fields in (
        {'response_format': {'type': 'json_object'}}, {'structured_outputs': {'json_object': True}},
        {'response_format': {'type': 'json_object', 'schema': {'type': 'object'}}})]
    assert said(objects[0]) == said(objects[1]) == said(objects[2])
    whole = [choice['text'] for choice in objects[0] if choice['finish_reason'] == 'stop']
    assert whole and all(isinstance(json.loads(text), dict) for text in whole), objects[0]


def grammars_of_llama():
    for path in (COMPLETIONS, CHAT):
        for name in ('grammar', 'guided_grammar'):
            for choice in ask(path, n=4, **{name: 'root ::= ("yes" | "no") mark{2,3}\nmark ::= [!?] | "€"'}):
                assert re.fullmatch('(yes|no)[!?€]{2,3}', choice['text']), choice
        refused('grammar', '', path, grammar='root ::= mark')
        refused('guided_grammar', '', path, guided_grammar='mark ::= "a"')
    one = {'grammar': 'root ::= [a-z]{9}', 'seed': 5}
    assert said(ask(CHAT, structured_outputs={'grammar': one['grammar']}, seed=5)) == said(ask(CHAT, **one))


def choices_of_texts():
    texts = ['yes', 'no', '', 'ye', '[a-z]*', 'a\\E|b', 'größer', '"\n\t', '(?:x)', '語', '#', '-']
    for path in (COMPLETIONS, CHAT):
        first = said(ask(path, n=24, guided_choice=texts))
        assert {text for text, _, _ in first} <= set(texts) and {finish for _, _, finish in first} == {'stop'}, first
        assert first == said(ask(path, n=24, structured_outputs={'choice': texts}))
        for text in texts:
            assert ask(path, guided_choice=[text])[0]['text'] == text


def texts_of_many_bytes():
    """Characters of several tokens arrive whole, also in a stream."""
    for pattern in ('[à-ã]{3}', '€[^a-z]{4}', '[😀-😃]{2}', '([а-я]{2}|語){3}'):
        for choice in streamed(COMPLETIONS, regex=pattern, seed=6, n=4) + ask(COMPLETIONS, regex=pattern, temperature=0):
            assert re.fullmatch(pattern, choice['text']) and choice['finish_reason'] == 'stop', (pattern, choice)


def tokens_that_are_no_characters():
    """In log probabilities, a token that is a part of a character is written as its bytes."""
    fields = {'regex': 'a€', 'temperature': 0}
    pieces = ['a', r'bytes:\xe2', r'bytes:\x82', r'bytes:\xac']
    got = ask(COMPLETIONS, logprobs=0, **fields)[0]['logprobs']
    assert got['tokens'] == pieces and got['text_offset'] == [0, 1, 2, 2], got
    content = ask(CHAT, logprobs=True, top_logprobs=1, **fields)[0]['logprobs']['content']
    assert [token['token'] for token in content] == pieces, content
    assert [token['bytes'] for token in content] == [[97], [0xe2], [0x82], [0xac]], content


def schemas_are_refused():
    for path in (COMPLETIONS, CHAT):
        for fields in formats({'type': 'object', 'properties': {'a': {'type': 'strin'}}}):
            refused(next(iter(fields)), '#/properties/a/type', path, **fields)
        refused('json_schema', '', path, json_schema=[1])
        refused('json_schema', '', path, json_schema='{"type": ')
        refused('json_schema', 'deep', path, json_schema='{"items":' * 2000 + '{}' + '}' * 2000)
        refused('guided_json', 'large', path, guided_json={'enum': ['%d' % i * 200 for i in range(1000)]})
        refused('guided_json', 'the request also has json_schema; give only one', path, json_schema={}, guided_json={})
        for value, holds in (({}, 'type'), ({'type': 'xml'}, 'type'), ({'type': 5}, 'type'), ('json_object', 'type'),
                             ({'type': 'json_schema'}, 'must have a schema'), ({'type': 'text', 'schema': {}}, 'schema'),
                             ({'type': 'json_schema', 'json_schema': []}, 'must be an object'),
                             ({'type': 'json_schema', 'json_schema': {'schema': 5}}, 'object'),
                             ({'type': 'json_schema', 'json_schema': {'schemas': {}}}, 'schemas: not supported'),
                             ({'type': 'json_object', 'json_schema': {'schema': {}}}, 'schema'),
                             ({'type': 'json_schema', 'schema': {}, 'json_schema': {'schema': {}}}, 'schema')):
            refused('response_format', holds, path, response_format=value)
    for value in ({'type': 'text'}, None):
        assert said(ask(CHAT, response_format=value, max_tokens=5)) == said(ask(CHAT, max_tokens=5))


words = (words_match, an_answer_that_matches_anyway_is_the_same, how_it_ends, beside_other_fields, a_stream_is_the_same,
         others_change_nothing, cached_sessions, patterns_are_refused, patterns_with_no_end_in_sight)
any_text = (schemas_hold, all_ways_are_the_same, grammars_of_llama, choices_of_texts, texts_of_many_bytes,
            tokens_that_are_no_characters, schemas_are_refused)
for function in words if what == 'words' else any_text:
    case(function)
run()
