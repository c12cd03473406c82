"""test_fields.py URL WHAT [TEMPLATE] - fields without effect, unknown names, the server's own messages in later
requests, and the lengths of answers."""
import json
import sys

from client import Server, case, run, together, until

server, what = Server(sys.argv[1]), sys.argv[2]
COMPLETIONS, CHAT = '/v1/completions', '/v1/chat/completions'
HELLO = [{'role': 'user', 'content': 'the red kettle'}]
GREEDY = dict(temperature=0, ignore_eos=True, return_token_ids=True)


def chat(**fields):
    return server.post(CHAT, **{'messages': HELLO, 'max_tokens': 2, 'temperature': 0, **fields})


def prompt_of(messages, **fields):
    """Returns the text that the template made of the messages."""
    return ''.join(chat(messages=messages, max_tokens=1, return_held=True, **fields)['choices'][0]['prompt_pieces'])


# ---- lenient ----

NOTHING = dict(
    response_format=[{'type': 'text'}], tool_choice=['none', 'auto'], tools=[[]], function_call=['none'],
    parallel_tool_calls=[True, False], service_tier=['auto', 'flex'], modalities=[['text']], store=[True, False],
    metadata=[{'a': 'b'}, {}], prompt_cache_key=['a'], safety_identifier=['b'], reasoning_effort=['low'], user=['c'],
    seed=[-1], top_k=[-1], stop=['', [], [''], ['', '@']], model=['gpt-4o', ''], frequency_penalty=[0],
    presence_penalty=[0.0], n=[1], max_tokens=[-1], max_completion_tokens=[2], stream_options=[{'include_usage': True}],
    logit_bias=[{}], min_tokens=[0], top_a=[0], audio=[], prediction=[], grammar=[''], chat_template_kwargs=[{}])


def nothing_is_asked():
    plain = chat(max_tokens=3)['choices'][0]['message']
    for field, values in NOTHING.items():
        for value in values + [None]:
            got = chat(**{'max_tokens': 3, **({'stop': ['@never@']} if field.startswith('max') else {}), field: value})
            if not field.startswith('max'):
                assert got['choices'][0]['message'] == plain, (field, value, got)
    for field in ('response_format', 'seed', 'top_k', 'stop', 'model', 'service_tier', 'user', 'suffix', 'best_of'):
        for value in NOTHING.get(field, []) + [None]:
            server.complete(**{'prompt': 'the', 'max_tokens': 1, field: value})
    everything = {field: None for field in NOTHING}
    assert chat(**{**everything, 'max_tokens': 3, 'nobody_knows_this': None})['choices'][0]['message'] == plain


def something_is_asked():
    for field, value in (
            ('response_format', {'type': 'xml'}), ('response_format', {'type': 'json_schema', 'json_schema': {}}),
            ('response_format', {'type': 'text', 'more': 1}), ('tool_choice', 'required'),
            ('tool_choice', {'type': 'function', 'function': {'name': 'f'}}), ('tools', [{}]), ('functions', [{}]),
            ('modalities', ['text', 'audio']), ('audio', {'voice': 'a'}), ('prediction', {'type': 'content'}),
            ('grammar', 'root := "a"'), ('guided_json', 5), ('guided_choice', [5]), ('min_tokens', 3), ('top_a', 0.5),
            ('frequency_penalty', 2.5), ('presence_penalty', -3), ('frequency_penalty', 'much'), ('seed', -2),
            ('top_k', -2), ('max_tokens', -2), ('max_tokens', 1.5), ('stop', [3]), ('model', 5)):
        server.refused(CHAT, 400, field, **{'messages': HELLO, field: value})


def names():
    plain = chat()['choices'][0]['message']
    assert chat(frobnicate=1, chat_id='x')['choices'][0]['message'] == plain
    for name, meant in (('kvv', 'kv'), ('maxTokens', 'max_tokens'), ('max-tokens', 'max_tokens'), ('topP', 'top_p'),
                        ('temprature', 'temperature'), ('messagess', 'messages'), ('Stream', 'stream'),
                        ('tool', 'tools'), ('respons_format', 'response_format')):
        error, _ = server.refused(CHAT, 400, name, **{'messages': HELLO, name: 1})
        assert error['message'].endswith('did you mean ' + meant), error
    server.refused(CHAT, 400, 'stream_options', messages=HELLO, stream=True, stream_options={'include_usages': True})
    server.refused(CHAT, 400, 'messages', messages=[{'role': 'user', 'contents': 'a'}])


def own_answer():
    """A message that the server wrote can be a message of the next request, unchanged."""
    messages = list(HELLO)
    for _ in range(3):
        messages.append(chat(messages=messages)['choices'][0]['message'])
        assert messages[-1]['refusal'] is None
        messages.append({'role': 'user', 'content': [{'type': 'text', 'text': 'the sailor', 'cache_control': {}}]})
    assert chat(messages=messages)['usage']['prompt_tokens'] > 20
    for member in ('refusal', 'annotations', 'audio', 'function_call', 'reasoning_content', 'tool_calls', 'name',
                   'tool_call_id', 'provider_specific_fields'):
        with_null = [dict(messages[0]), dict(messages[1], **{member: None}), messages[2]]
        without = [messages[0], {k: v for k, v in messages[1].items() if v is not None}, messages[2]]
        assert chat(messages=with_null)['usage'] == chat(messages=without)['usage'], member


def penalties():
    """Compares with OpenAI's formula, applied to the model's log probabilities after each token, because only
    differences of logits matter."""
    prompt = server.post('/tokenize', content='the red kettle and the', add_special=True)['tokens']
    ids = {}
    for frequency, presence in ((1.5, 0), (0, 2), (0.5, 0.5)):
        counts, tokens = {}, []
        for _ in range(10):
            top = server.complete(prompt=prompt + tokens, max_tokens=1, logprobs=20, **GREEDY)['choices'][0]
            best = top['logprobs']['top_logprobs'][0]
            for piece in best:
                if piece not in ids:
                    ids[piece] = server.post('/tokenize', content=piece)['tokens']
            mu = {ids[piece][0]: logprob for piece, logprob in best.items() if len(ids[piece]) == 1}
            for token, n in counts.items():
                if token in mu:
                    mu[token] -= n * frequency + presence
            tokens.append(max(mu, key=mu.get))
            counts[tokens[-1]] = counts.get(tokens[-1], 0) + 1
        fields = dict(GREEDY, prompt=prompt, max_tokens=10)
        got = server.complete(frequency_penalty=frequency, presence_penalty=presence, **fields)['choices'][0]
        assert got['token_ids'] == tokens != server.complete(**fields)['choices'][0]['token_ids'], (got, tokens)
    fields = dict(prompt='the', max_tokens=20, frequency_penalty=0.7, seed=3, n=2, return_token_ids=True)
    assert server.complete(**fields)['choices'] == server.complete(**fields)['choices']


def lenient():
    for function in (nothing_is_asked, something_is_asked, names, own_answer, penalties):
        case(function)


# ---- strict ----

def unknown_names_are_refused():
    for fields in ({'frobnicate': 1}, {'chat_id': 'x'}, {'stream_options': {'more': 1}, 'stream': True},
                   {'messages': [dict(HELLO[0], mood='good')]}):
        server.refused(CHAT, 400, None, **{'messages': HELLO, **fields})
    chat(frobnicate=None, messages=[dict(HELLO[0], mood=None, refusal=None)])


def other_models_are_refused():
    for path in (COMPLETIONS, CHAT):
        error, _ = server.refused(path, 404, 'model', model='other', **(
            {'messages': HELLO} if path == CHAT else {'prompt': 'a'}))
        assert error['code'] == 'model_not_found'
    chat(model='demo')


def strict():
    case(unknown_names_are_refused)
    case(other_models_are_refused)


# ---- lengths ----

def count(**fields):
    got = server.complete(**{'prompt': 'the', **GREEDY, **fields})
    choice = got['choices'][0]
    assert choice['finish_reason'] == 'length' and len(choice['token_ids']) == got['usage']['completion_tokens']
    return len(choice['token_ids'])


def the_servers_own():
    assert count() == 7 and count(max_tokens=None) == 7  # --max-tokens
    assert count(max_tokens=9) == count(max_completion_tokens=9) == 9
    assert count(max_tokens=-1) == count(max_tokens=10 ** 6) == count(max_tokens=10 ** 12) == 300  # --tokens
    assert count(max_completion_tokens=-1) == 300 and count(max_tokens=0) == 0


def the_contexts():
    prompt = [20] * 2000
    assert count(prompt=prompt, max_tokens=100) == count(prompt=prompt, max_tokens=-1) == 48
    assert count(prompt=[20] * 2047, max_tokens=None) == 1
    for tokens in (2048, 2049):
        error, _ = server.refused(COMPLETIONS, 400, 'prompt', prompt=[20] * tokens)
        assert error['code'] == 'context_length_exceeded' and str(tokens) in error['message'], error
    assert count(prompt=[20] * 2048, max_tokens=0) == 0


def lengths():
    case(the_servers_own)
    case(the_contexts)


# ---- memory ----

CONTEXT = 400


def without_a_limit():
    """An answer alone on the server fills the context. It begins like an answer with a limit."""
    ids = server.complete(prompt='the', **GREEDY)['choices'][0]['token_ids']
    assert len(ids) == CONTEXT - server.complete(prompt='the', max_tokens=0)['usage']['prompt_tokens']
    assert ids[:40] == server.complete(prompt='the', max_tokens=40, **GREEDY)['choices'][0]['token_ids']


def many_at_once():
    """Each answer alone would take all memory. Together, some end early, but with the tokens of a run alone; none
    fails."""
    alone = [server.complete(prompt='the' + ' red' * i, **GREEDY)['choices'][0] for i in range(5)]
    most = [0]

    def ask(i, stream):
        fields = dict(GREEDY, prompt='the' + ' red' * i)
        if not stream:
            return server.complete(**fields)['choices'][0]
        ids, finish = [], None
        for event in server.stream(COMPLETIONS, **fields):
            if event['choices']:
                ids += event['choices'][0]['token_ids']
                finish = event['choices'][0]['finish_reason'] or finish
            most[0] = max(most[0], server.metric('running_answers')) if len(ids) % 8 == 1 else most[0]
            assert len(ids) % 64 != 1 or server.metric('reserved_bytes') <= server.metric('limit_bytes')
        return {'token_ids': ids, 'finish_reason': finish}

    got = together([lambda i=i: ask(i, i % 2) for i in range(5)])
    for one, other in zip(got, [each['token_ids'] for each in alone]):
        assert one['finish_reason'] == 'length' and len(one['token_ids']) > 0
        assert one['token_ids'] == other[:len(one['token_ids'])]
    assert any(len(one['token_ids']) == len(each['token_ids']) for one, each in zip(got, alone)), 'the last of them has all memory'
    assert most[0] > 1, 'one after the other'
    until(lambda: server.metric('reserved_bytes') == 0)


def with_a_limit():
    """An answer with a limit reaches it, whatever other answers have no limit."""
    def ask(i):
        fields = {} if i % 2 else {'max_tokens': 150}
        got = server.complete(prompt='the' + ' red' * i, **GREEDY, **fields)['choices'][0]
        return len(got['token_ids'])
    got = together([lambda i=i: ask(i) for i in range(5)])
    assert got[0] == got[2] == got[4] == 150, got


def memory():
    for function in (without_a_limit, many_at_once, with_a_limit):
        case(function)


# ---- templates ----

CALL = {'id': 'c1', 'type': 'function', 'index': None, 'function': {'name': 'f', 'arguments': {'x': None}}}


def members():
    assert prompt_of([{'role': 'user', 'content': 'a'}]) == '<user a>'
    assert prompt_of([{'role': 'assistant', 'content': None, 'tool_calls': [CALL], 'refusal': None}]) == (
        '<assistant none f{"x": null}>')
    assert prompt_of([{'role': 'assistant', 'tool_calls': [CALL]}]) == '<assistant undefined f{"x": null}>'
    assert prompt_of([{'role': 'assistant', 'content': 'a', 'refusal': 'no', 'reasoning_content': 'so', 'audio': None,
                       'annotations': [], 'function_call': None, 'mood': 'good'}]) == (
        '<assistant a refusal=no annotations=[] reasoning_content=so mood=good>')
    assert prompt_of([{'role': 'assistant', 'content': [{'type': 'text', 'text': 'a'},
                                                        {'type': 'refusal', 'refusal': 'no'}]}]) == '<assistant ano>'


def variables():
    hello = [{'role': 'user', 'content': 'a'}]
    assert prompt_of(hello, reasoning_effort='low') == '<user a> effort=low'
    assert prompt_of(hello, reasoning_effort='low', chat_template_kwargs={'reasoning_effort': 'high', 'quiet': None}) == (
        '<user a> effort=high quiet')
    assert prompt_of(hello, reasoning_effort=None) == '<user a>'


def templated():
    case(members)
    case(variables)


def as_transformers(template, messages):
    """Renders the messages as transformers does. Raises an exception if the template refuses them."""
    from jinja2.ext import loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def refuse(message):
        raise ValueError(message)
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.filters['tojson'] = lambda x, indent=None: json.dumps(x, ensure_ascii=False, indent=indent)
    environment.globals.update(raise_exception=refuse, strftime_now=lambda form: '30 Jun 2025')
    return environment.from_string(template).render(messages=messages, tools=None, documents=None, bos_token='<s>',
                                                    eos_token='</s>', add_generation_prompt=True)


def with_texts(messages):
    """Returns the messages with an empty text in place of each null."""
    return [{**m, 'content': ''} if m.get('content', '') is None else m for m in messages]


def calls_without_content():
    with open(sys.argv[3]) as file:
        template = file.read()
    function = {'name': 'f', 'arguments': {'x': 1}}
    for more in ({'content': None}, {}, {'content': ''}):
        call = {'id': 'call12345', 'type': 'function', 'function': function}
        messages = [{'role': 'user', 'content': 'a'}, {'role': 'assistant', 'tool_calls': [call], **more},
                    {'role': 'tool', 'content': '3', 'tool_call_id': 'call12345', 'name': 'f'}]
        for given in (messages, with_texts(messages)): # a template that cannot read null gets an empty text
            try:
                wanted = as_transformers(template, given)
                break
            except Exception:
                wanted = None
        if wanted is None:
            server.refused(CHAT, 400, 'messages', messages=messages)
            continue
        got = prompt_of(messages)
        assert got in (wanted, '<s>' + wanted), (more, got, wanted)


def beside_jinja2():
    case(calls_without_content)


globals()[what]()
run()
