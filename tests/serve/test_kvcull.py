"""test_kvcull.py URL PROGRAM KV, URL keys, or URL many - the paths and fields that the page needs."""
import json
import subprocess
import sys

from client import Server, case, program, run

server = Server(sys.argv[1])


def keys():
    for method, path, body in (('GET', '/kvcull', None), ('POST', FORECAST, '{"prompt_tokens": 5}')):
        assert server.send(method, path, body)[0] == 401
        assert Server(sys.argv[1], 'secret').send(method, path, body)[0] == 200


# ---- the methods ----

def methods():
    """Compares the server's list with `kvcull info methods`."""
    status, headers, data = server.get('/kvcull')
    got = json.loads(data)
    assert status == 200 and headers['Content-Type'] == 'application/json'
    assert got['model'] == 'demo' and got['kv'] == sys.argv[3] and got['context'] == 900, got
    assert got['vocabulary'] == json.loads(server.get('/v1/models')[2])['data'][0]['vocabulary']
    assert got['layers'] > 1 and got['heads'] >= 1
    said = subprocess.run([sys.argv[2], '--version'], check=True, capture_output=True).stdout.decode()
    assert got['version'] in said.split()
    want = program([sys.argv[2], 'info', 'methods', '--json'])['methods']
    assert [m['name'] for m in got['methods']] == [m['name'] for m in want]
    for one, other in zip(got['methods'], want):
        assert (one['stage'], one['summary']) == (other['stages'], other['summary'])
        assert [(o['name'], o['default'], o['meaning']) for o in one['options']] == [
            (o['name'], o['default'], o['help']) for o in other['options']]
        assert all(o['takes'] for o in one['options'])
    assert 'skip_layers' in [o['name'] for o in got['common_options']]


# ---- the progress of prompts ----

def words(count):
    return ' '.join(['the old sailor found the red kettle near the harbor .'] * (count // 11 + 1))


def progress_of(events, index=0):
    """Returns the progress reports and the other events of one answer, and checks their order and values."""
    own = [event for event in events if event['choices'] and event['choices'][0]['index'] == index]
    told = [event['prompt_progress'] for event in own if 'prompt_progress' in event]
    texts = [event['choices'][0] for event in own if 'prompt_progress' not in event]
    assert all('prompt_progress' in event for event in own[:len(told)]), 'progress comes before the answer'
    assert texts[-1]['finish_reason'] and all(event['choices'][0]['finish_reason'] is None for event in own[:len(told)])
    for before, after in zip(told, told[1:]):
        assert before['processed'] <= after['processed'] and before['time_ms'] <= after['time_ms']
        assert before['total'] == after['total']
    assert all(set(t) == {'total', 'cache', 'processed', 'time_ms'} for t in told)
    assert all(0 <= t['cache'] <= t['processed'] <= t['total'] and t['time_ms'] >= 0 for t in told), told
    return told, texts


def progress():
    text = words(700)
    for kv in ('full', 'snapkv:budget=48', 'take:budget=48,chunk=128', 'fastkv:budget=48'):
        for path, fields in (('/v1/completions', {'prompt': text}),
                             ('/v1/chat/completions', {'messages': [{'role': 'user', 'content': text}]})):
            fields = dict(fields, max_tokens=4, temperature=0, kv=kv, cache_prompt=False, ignore_eos=True,
                          stream_options={'include_usage': True})
            events = server.stream(path, return_progress=True, **fields)
            told, texts = progress_of(events)
            total = events[-1]['usage']['prompt_tokens']
            assert 5 <= len(told) <= 101, len(told)
            assert told[0]['processed'] == told[0]['cache'] == 0 and told[-1]['processed'] == told[0]['total'] == total
            assert len({t['processed'] for t in told}) > 4, told
            plain = server.stream(path, **fields)
            assert not any('prompt_progress' in event for event in plain)
            assert texts == [event['choices'][0] for event in plain if event['choices']]
            assert 'prompt_progress' not in server.post(path, return_progress=True, **fields)
    server.refused('/v1/completions', 400, 'return_progress', prompt='a', return_progress=3)


def progress_of_cached_prompts():
    """Prompt tokens of a cached session count as processed from the beginning."""
    fields = dict(max_tokens=2, temperature=0, kv='full', cache_prompt=True, return_progress=True)
    first = progress_of(server.stream('/v1/completions', prompt=words(300), **fields))[0]
    second = progress_of(server.stream('/v1/completions', prompt=words(300) + ' ' + words(300), **fields))[0]
    assert first[-1]['cache'] == 0 and first[-1]['total'] - 1 <= second[0]['cache'] == second[0]['processed'], second
    assert second[-1]['processed'] == second[-1]['total'] > second[0]['cache']


def progress_of_several_answers():
    fields = dict(max_tokens=3, temperature=0, kv='full', cache_prompt=False, return_progress=True, n=3)
    events = server.stream('/v1/completions', prompt=[words(200), words(400)], **fields)
    for index in range(6):
        told, _ = progress_of(events, index)
        assert told and told[-1]['processed'] == told[-1]['total'], (index, told)


# ---- forecasts ----

FORECAST = '/kvcull/forecast'


def held_after(kv, prompt, tokens):
    usage = server.complete(kv=kv, prompt=prompt, max_tokens=tokens, temperature=0, ignore_eos=True, cache_prompt=False)
    assert usage['usage']['completion_tokens'] == tokens
    return usage['usage']['kv']


def check_forecast(kv, prompt, tokens, exact):
    got = server.post(FORECAST, kv=kv, prompt=prompt, max_tokens=tokens)
    assert (got['kv'], got['prompt_tokens'], got['max_tokens']) == (kv, len(prompt), tokens), got
    held = held_after(kv, prompt, tokens)
    assert got['full'] == held['full_bytes'], (kv, got, held)
    assert round(got['entries'] * got['lists']) >= held['entries'] > 0, (kv, got, held)
    if got['exact']:
        assert (got['cache'], got['state']) == (held['cache_bytes'], held['state_bytes']), (kv, got, held)
        exact.append(kv)
    else:
        assert got['cache'] >= held['cache_bytes'], (kv, got, held)
    assert got['peak'] >= got['cache'] + got['state']


def forecasts():
    """For every method, with several budgets and lengths, the forecast equals the bytes that the server then holds."""
    names = [method['name'] for method in json.loads(server.get('/kvcull')[2])['methods']]
    policies = [name + rest for name in names for rest in (':budget=48', ':budget=300', ':budget=10%', '')]
    policies += ['snapkv:budget=64+window:budget=40', 'adakv:budget=64+quest:budget=32', 'fastkv:budget=50+hsa:budget=20']
    lengths, exact, tried = ((5, 2), (60, 40), (300, 1), (700, 30), (250, 70)), [], 0
    for i, kv in enumerate(policies):
        if server.send('POST', FORECAST, json.dumps({'kv': kv, 'prompt_tokens': 100}))[0] != 200:
            continue  # the method needs another option, or has no budget
        for n in (i, i + 1):
            prompt, tokens = lengths[n % len(lengths)]
            check_forecast(kv, [20 + (7 * k) % 300 for k in range(prompt)], tokens, exact)
            tried += 1
    assert tried > 150 and len(exact) > tried / 2 and len(set(exact)) > 60, (tried, len(exact), len(set(exact)))


def forecasts_of_prompts():
    """A prompt has the same forecast as messages, as text, as tokens and as a number of tokens."""
    tools = [{'type': 'function', 'function': {'name': 'f', 'parameters': {'type': 'object'}}}]
    for fields in ({'messages': [{'role': 'user', 'content': words(60)}]},
                   {'messages': [{'role': 'user', 'content': 'a'}], 'tools': tools, 'tool_choice': 'required'},
                   {'prompt': words(60)}, {'prompt': [20] * 50}):
        path = '/v1/chat/completions' if 'messages' in fields else '/v1/completions'
        want = server.post(path, max_tokens=1, **fields)['usage']
        got = server.post(FORECAST, max_tokens=9, **fields)
        assert got['prompt_tokens'] == want['prompt_tokens'] and got['max_tokens'] == 9
        assert got['kv'] == sys.argv[3], 'the server\'s own policy'
        assert server.post(FORECAST, max_completion_tokens=9, prompt_tokens=got['prompt_tokens']) == got
    assert server.post(FORECAST, prompt_tokens=100)['max_tokens'] == 800, 'what the context leaves'
    assert server.post(FORECAST, prompt_tokens=100, max_tokens=10 ** 9)['max_tokens'] == 800
    assert server.post(FORECAST, prompt_tokens=900, max_tokens=0)['max_tokens'] == 0


def several_forecasts():
    kvs = ['snapkv:budget=%d' % budget for budget in range(40, 104)]
    got = server.post(FORECAST, kvs=kvs, prompt_tokens=500, max_tokens=20)['forecasts']
    assert got == [server.post(FORECAST, kv=kv, prompt_tokens=500, max_tokens=20) for kv in kvs]
    assert all(one['entries'] < other['entries'] for one, other in zip(got, got[1:])), got
    assert server.post(FORECAST, kvs=[], prompt_tokens=5)['forecasts'] == []
    good, no, small = server.post(FORECAST, kvs=['full', 'no', 'snapkv:budget=16'], prompt_tokens=5)['forecasts']
    assert good == server.post(FORECAST, kv='full', prompt_tokens=5)
    assert no['kv'] == 'no' and 'no' in no['error'] and sorted(no) == ['error', 'kv']
    assert 'budget' in small['error']
    for field, fields in (('kvs', {'kvs': kvs + kvs[:1]}), ('kvs', {'kvs': 'full'}), ('kvs', {'kvs': ['full', 3]}),
                          ('kvs', {'kvs': ['full'], 'kv': 'full'}),
                          ('kv', {'kv': 'snapkv:budget=0'}), ('kv', {'kv': 'window:budget=1' + ' ' * 1000}), ('kv', {'kv': 5}),
                          ('kv', {'kv': 'duo:file=x'}), ('prompt_tokens', {'prompt': 'a'}),
                          ('max_tokens', {'max_tokens': -2})):
        server.refused(FORECAST, 400, field, **{'prompt_tokens': 5, **fields})
    for value in (0, -1, 1.5, 'x', 10 ** 18, 2 ** 31):
        server.refused(FORECAST, 400, 'prompt_tokens', prompt_tokens=value)
    server.refused(FORECAST, 400, 'prompt_tokens')
    server.refused(FORECAST, 400, 'prompt', prompt=['a', 'b'])
    server.refused(FORECAST, 400, 'messages', messages=[])
    server.refused(FORECAST, 400, None, body=b'{')
    server.refused(FORECAST, 400, None, body=b'[]')
    error, _ = server.refused(FORECAST, 400, None, prompt_tokens=901, max_tokens=0)
    assert error['code'] == 'context_length_exceeded' and error['param'] == 'prompt_tokens', error
    error, _ = server.refused(FORECAST, 400, None, prompt_tokens=5, prompt_token=5)
    assert error['message'].endswith('did you mean prompt_tokens'), error
    assert server.send('GET', FORECAST)[0] == 405


# ---- tokens that the cache has lost ----

LAYERS, LISTS = 4, 2  # of the demo model


def lost_of(kv, prompt, tokens, **more):
    fields = dict(kv=kv, prompt=prompt, max_tokens=tokens, temperature=0, ignore_eos=True, return_lost=True, seed=1,
                  return_held=True, cache_prompt=False, **more)
    whole = server.complete(**fields)['choices'][0]
    events = [event['choices'][0] for event in server.stream('/v1/completions', **fields)]
    assert not any('lost' in event or 'layers' in event for event in events[:-1])
    last = events[-1]
    assert (last['lost'], last['layers'], last['held']) == (whole['lost'], whole['layers'], whole['held'])
    check_lost(whole, len(prompt) + tokens - 1)
    return whole['lost'], whole['layers']


def check_lost(choice, tokens):
    """Checks that no list holds a lost token, and that the layers' counts add up to the percentage held."""
    lost, held, layers = choice['lost'], choice['held'], choice['layers']
    assert len(lost) == len(held) == tokens and len(layers) == LAYERS and {len(layer) for layer in layers} == {tokens}
    for i in range(tokens):
        assert lost[i] == 0 or i < lost[i] <= tokens, (i, lost[i])
        digits = [layer[i] for layer in layers]
        assert set(digits) <= set('059'), digits
        lists = sum({'0': 0, '5': 1, '9': 2}[digit] for digit in digits)
        assert held[i] == -(-100 * lists // (LAYERS * LISTS)) and (lost[i] == 0) == (lists > 0), (i, held[i], digits)


def lost_tokens():
    prompt = [20 + (7 * k) % 300 for k in range(200)]
    lost, layers = lost_of('full', prompt, 20)
    assert set(lost) == {0} and set(''.join(layers)) == {'9'}
    lost, _ = lost_of('window:budget=48', prompt, 60)  # keeps the last 48 tokens
    assert lost == [max(i + 49, 200) if i < 259 - 48 else 0 for i in range(259)], lost
    lost, _ = lost_of('streaming:budget=40,sinks=4', prompt, 30)
    assert lost == [max(i + 37, 200) if 4 <= i < 229 - 36 else 0 for i in range(229)], lost
    lost, _ = lost_of('take:budget=40,chunk=64', prompt, 5)
    assert {0, 64, 128, 192, 200} >= set(lost) and 192 in lost, set(lost)  # tokens are also lost within the prompt
    lost, _ = lost_of('snapkv:budget=40', prompt, 1)
    assert set(lost) == {0, 200}
    lost, _ = lost_of('snapkv:budget=48+morphkv:budget=48', prompt, 40)
    assert len(set(lost)) > 3, set(lost)
    for kv in ('adakv:budget=48', 'random:budget=20', 'cake:budget=48', 'lacache:budget=160,span=2', 'quest:budget=20'):
        lost_of(kv, prompt, 20)


def lost_tokens_of_several():
    fields = dict(prompt=words(100), kv='random:budget=20', n=3, max_tokens=20, cache_prompt=False, return_lost=True)
    choices = server.complete(**fields)['choices']
    assert len({str(choice['lost']) for choice in choices}) == 3 and all('held' not in choice for choice in choices)
    assert 'lost' not in server.complete(**dict(fields, return_lost=False))['choices'][0]
    said = server.post('/v1/chat/completions', messages=[{'role': 'user', 'content': words(60)}], return_lost=True,
                       kv='window:budget=20', max_tokens=3)['choices'][0]
    assert len(said['layers']) == LAYERS and max(said['lost']) > 20
    server.refused('/v1/completions', 400, 'return_lost', prompt='a', return_lost='yes')


def lost_tokens_of_many():
    """Many answers to a long prompt have no `layers`: 128 answers to 2,000 tokens would have more than a million
    digits."""
    fields = dict(prompt=[20] * 2000, kv='window:budget=20', max_tokens=1, return_lost=True, cache_prompt=False)
    choices = server.complete(n=128, **fields)['choices']
    assert len(choices) == 128 and all(choice['lost'] == [2000] * 1980 + [0] * 20 for choice in choices)
    assert not any('layers' in choice for choice in choices)
    assert 'layers' in server.complete(n=2, **fields)['choices'][0]


if sys.argv[2] == 'many':
    case(lost_tokens_of_many)
elif sys.argv[2] == 'keys':
    case(keys)
else:
    for function in (methods, progress, progress_of_cached_prompts, progress_of_several_answers, forecasts,
                     forecasts_of_prompts, several_forecasts, lost_tokens, lost_tokens_of_several):
        case(function)
run()
