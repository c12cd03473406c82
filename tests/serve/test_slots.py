"""test_slots.py URL WHAT FILE - conversations that continue after a restart of the server. FILE stores their tokens
between the runs."""
import json
import sys

from client import Server, case, run, until

server, what, place = Server(sys.argv[1]), sys.argv[2], sys.argv[3]
TEXT = 'the magic number for lantern 48 21 . then the old sailor found the red kettle near the harbor .'
LONG = ' '.join([TEXT] * 9)
FIELDS = dict(max_tokens=9, temperature=0.9, seed=4, ignore_eos=True, return_token_ids=True, logits_hash=True)


def tokens_of(text, **fields):
    return server.post('/tokenize', content=text, **fields)['tokens']


def begins():
    """Starts conversations under a policy that keeps everything and one that evicts, and two prompts with a common
    prefix."""
    known = {}
    for kv in ('full', 'morphkv:budget=64'):
        prompt = tokens_of(LONG, add_special=True)
        got = server.complete(prompt=prompt, kv=kv, cache_prompt=True, **FIELDS)
        known[kv] = prompt + got['choices'][0]['token_ids'] + tokens_of('question : the magic number for lantern')
    for end in ('red kettle', 'old sailor'):
        server.complete(prompt=tokens_of('near the harbor ' * 40) + tokens_of(end), **FIELDS)
    with open(place, 'w') as file:
        json.dump(known, file)


def goes_on():
    with open(place) as file:
        known = json.load(file)
    until(lambda: server.metric('kept_sessions') >= 3)
    for kv, prompt in known.items():
        got = server.complete(prompt=prompt, kv=kv, cache_prompt=True, **FIELDS)
        assert got['usage']['prompt_tokens_details']['cached_tokens'] > 100, (kv, got['usage'])
        hashed = got['choices'][0]['logits_hash']
        known[kv] = hashed
        if kv == 'full':
            fresh = server.complete(prompt=prompt, kv=kv, cache_prompt=False, **FIELDS)
            assert fresh['choices'][0]['logits_hash'] == hashed
    print(json.dumps(known))
    prompt = tokens_of('near the harbor ' * 40)
    got = server.complete(prompt=prompt + tokens_of('lantern'), **FIELDS)
    assert got['usage']['prompt_tokens_details']['cached_tokens'] >= len(prompt), got['usage']


def begins_anew():
    """The server has no usable saved session, so it computes the prompt anew."""
    with open(place) as file:
        known = json.load(file)
    got = server.complete(prompt=known['full'], kv='full', **FIELDS)
    assert got['usage']['prompt_tokens_details']['cached_tokens'] == 0, got['usage']


def talks():
    """Starts two conversations; the second one is the most recently used."""
    known = []
    for words in (LONG.split(), LONG.split()[::-1]):
        prompt = tokens_of(' '.join(words), add_special=True)
        got = server.complete(prompt=prompt, **FIELDS)
        known.append(prompt + got['choices'][0]['token_ids'] + tokens_of('the red kettle'))
    with open(place, 'w') as file:
        json.dump(known, file)
    until(lambda: server.metric('kept_sessions') == 2)  # the session is cached after the answer was sent
    print('bytes %d' % server.metric('kept_bytes'))


def the_last_goes_on():
    with open(place) as file:
        known = json.load(file)
    until(lambda: server.metric('kept_sessions') == 1)
    cached = [server.complete(prompt=prompt, **FIELDS)['usage']['prompt_tokens_details']['cached_tokens']
              for prompt in reversed(known)]
    assert cached[0] > 100 and cached[1] == 0, cached


def holds_two():
    until(lambda: server.metric('kept_sessions') == 2)


case(globals()[what])
run()
