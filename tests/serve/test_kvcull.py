"""test_kvcull.py URL PROGRAM KV, or URL keys - the paths and fields that the page needs."""
import json
import subprocess
import sys

from client import Server, case, program, run

server = Server(sys.argv[1])


def keys():
    for method, path in (('GET', '/kvcull'),):
        assert server.send(method, path)[0] == 401
        assert Server(sys.argv[1], 'secret').send(method, path)[0] == 200


# ---- the methods ----

def methods():
    """Beside `kvcull info methods`."""
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
    """The progress of one answer: checked against the order of events and each other."""
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
    """What a cached session held counts as processed from the beginning."""
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


if sys.argv[2] == 'keys':
    case(keys)
else:
    for function in (methods, progress, progress_of_cached_prompts, progress_of_several_answers):
        case(function)
run()
