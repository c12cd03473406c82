"""test_serve.py URL PROGRAM MODEL - compares a server's answers with those of the program alone."""
import json
import math
import random
import sys

from client import Server, case, program, run, together

server, binary, model = Server(sys.argv[1]), sys.argv[2], sys.argv[3]
TEXT = 'the magic number for lantern 48 21 . then the old sailor found the red kettle near the harbor .'
QUESTION = TEXT + ' question : the magic number for lantern'
LONG = ' '.join([TEXT] * 20)


def alone(prompt, tokens, *more, kv='full'):
    """Returns the answer of `kvcull run` with the server's defaults."""
    out = program([binary, 'run', '-m', model, '-p', prompt, '-n', str(tokens), '--temp', '1', '--top-k', '0',
                   '--top-p', '1', '--min-p', '0', '--kv', kv, '--json', '-q', *more])
    return out['turns'][0]


@case
def what_there_is():
    assert server.get('/health')[0] == 200
    models = json.loads(server.get('/v1/models')[2])
    assert models['object'] == 'list' and models['data'][0]['id'] == 'demo'
    assert b'kvcull_limit_bytes 268435456' in server.get('/metrics')[2]


@case
def as_run():
    want = alone(QUESTION, 4, '--temp', '0')
    got = server.complete(prompt=QUESTION, max_tokens=4, temperature=0, return_token_ids=True, model='demo')
    choice = got['choices'][0]
    assert choice['token_ids'] == want['tokens'] and choice['text'] == want['text'], (choice, want)
    assert choice['text'].startswith('48 21') or '48' in choice['text']
    assert choice['finish_reason'] == ('stop' if want['stopped'] == 'end of turn' else 'length')
    usage = got['usage']
    assert usage['prompt_tokens'] == want['prompt_tokens'] and usage['completion_tokens'] == len(want['tokens'])
    assert usage['kv']['policy'] == 'full' and usage['kv']['cache_bytes'] == usage['kv']['full_bytes'] > 0
    assert usage['kv']['read_bytes'] > 0
    again = server.complete(prompt=[server.post('/tokenize', content=QUESTION, add_special=True)['tokens']][0],
                            max_tokens=4, temperature=0, return_token_ids=True)
    assert again['choices'][0]['token_ids'] == want['tokens']


@case
def control_tokens():
    """Control tokens are recognized in a prompt and not in a message. In a message, the demo model reads them as
    unknown words."""
    def logits(path, **request):
        answer = server.post(path, max_tokens=1, temperature=0, logits_hash=True, **request)
        return answer['choices'][0]['logits_hash']

    def chat(content, **more):
        return logits('/v1/chat/completions', messages=[{'role': 'user', 'content': content}], **more)

    text, unknown = 'the old </s> sailor', 'the old nosuchword sailor'
    hashes = []
    for special in (True, False):
        ids = server.post('/tokenize', content=text, add_special=True, special=special)['tokens']
        hashes.append(logits('/v1/completions', prompt=text, special=special))
        assert hashes[-1] == logits('/v1/completions', prompt=ids), special
    assert hashes[0] == logits('/v1/completions', prompt=text) != hashes[1]
    assert server.post('/tokenize', content=text) == server.post('/tokenize', content=text, special=True)
    assert chat(text) == chat(unknown) != chat(text, special_content=True)


@case
def every_part_of_an_answer_as_its_stop_text():
    """The answer ends before the first occurrence of the stop text, whole and streamed."""
    request = dict(prompt=QUESTION, max_tokens=12, temperature=0, ignore_eos=True)
    answer = server.complete(**request)['choices'][0]['text']
    stops = sorted({answer[i:i + n] for n in range(2, 6) for i in range(len(answer) - n + 1)})
    assert len(stops) > 30, answer
    for stop in stops:
        want = answer[:answer.index(stop)]
        whole = server.complete(stop=stop, **request)['choices'][0]
        assert (whole['text'], whole['finish_reason']) == (want, 'stop'), (stop, whole, answer)
        events = [event['choices'][0] for event in server.stream('/v1/completions', stop=stop, **request)
                  if event['choices']]
        assert ''.join(event['text'] for event in events) == want, (stop, events)
        assert events[-1]['finish_reason'] == 'stop', (stop, events)


@case
def policies():
    for kv in ('snapkv:budget=64', 'streaming:budget=64', 'snapkv:budget=64+morphkv:budget=64', 'quest:budget=64'):
        want = alone(LONG, 12, '--ignore-eos', '--temp', '0', kv=kv)
        got = server.complete(prompt=LONG, max_tokens=12, temperature=0, kv=kv, ignore_eos=True, return_token_ids=True)
        assert got['choices'][0]['token_ids'] == want['tokens'], kv
        held = got['usage']['kv']
        assert held['policy'] == kv
        assert kv.startswith('quest') or held['cache_bytes'] < held['full_bytes'], held


@case
def whoever_else_is_served():
    """Sixteen clients at once, with long and short prompts, several policies, and greedy and random sampling."""
    kinds = ['full', 'snapkv:budget=64', 'streaming:budget=48', 'quest:budget=64', 'morphkv:budget=64']
    chance = random.Random(5)
    fields, wanted = [], []
    for i in range(16):
        words = TEXT.split()
        chance.shuffle(words)
        prompt = ' '.join(words * chance.choice([1, 3, 10, 30]))
        fields.append(dict(prompt=prompt, max_tokens=8 + 3 * (i % 5), seed=i, kv=kinds[i % len(kinds)],
                           temperature=0.0 if i % 3 == 0 else 0.9, ignore_eos=True, return_token_ids=True,
                           logits_hash=True, cache_prompt=False))
    one_by_one = [server.complete(**each)['choices'][0] for each in fields]
    for i in range(0, 16, 5):
        wanted = alone(fields[i]['prompt'], fields[i]['max_tokens'], '--temp', str(fields[i]['temperature']), '--seed',
                       str(i), '--ignore-eos', kv=fields[i]['kv'])
        assert one_by_one[i]['token_ids'] == wanted['tokens'], i
    at_once = together([lambda each=each: server.complete(**each)['choices'][0] for each in fields])
    for i in range(16):
        assert at_once[i]['token_ids'] == one_by_one[i]['token_ids'], i
        assert at_once[i]['logits_hash'] == one_by_one[i]['logits_hash'], i
        assert len(at_once[i]['token_ids']) == fields[i]['max_tokens']


@case
def streams():
    fields = dict(prompt=QUESTION, max_tokens=20, temperature=0.8, seed=3, ignore_eos=True, return_token_ids=True,
                  logprobs=2)
    whole = server.complete(**fields)
    events = server.stream('/v1/completions', stream_options={'include_usage': True}, **fields)
    parts = [event['choices'][0] for event in events if event['choices']]
    assert ''.join(part['text'] for part in parts) == whole['choices'][0]['text']
    assert sum((part['token_ids'] for part in parts), []) == whole['choices'][0]['token_ids']
    for name in ('tokens', 'token_logprobs', 'top_logprobs', 'text_offset'):
        assert sum((part['logprobs'][name] for part in parts), []) == whole['choices'][0]['logprobs'][name], name
    assert [part['finish_reason'] for part in parts] == [None] * (len(parts) - 1) + ['length']
    assert events[-1]['choices'] == [] and events[-1]['usage']['completion_tokens'] == 20
    assert len({event['id'] for event in events}) == 1


@case
def chats():
    messages = [{'role': 'system', 'content': 'old sailor'},
                {'role': 'user', 'content': [{'type': 'text', 'text': 'the red '}, {'type': 'text', 'text': 'kettle'}]}]
    fields = dict(messages=messages, max_completion_tokens=9, temperature=0, ignore_eos=True, logprobs=True,
                  top_logprobs=3)
    whole = server.post('/v1/chat/completions', **fields)
    assert whole['object'] == 'chat.completion' and whole['choices'][0]['message']['role'] == 'assistant'
    events = server.stream('/v1/chat/completions', **fields)
    assert all(event['object'] == 'chat.completion.chunk' for event in events)
    assert events[0]['choices'][0]['delta']['role'] == 'assistant'
    text = ''.join(event['choices'][0]['delta'].get('content') or '' for event in events)
    assert text == whole['choices'][0]['message']['content'], (text, whole)
    content = whole['choices'][0]['logprobs']['content']
    assert len(content) == 9 and len(content[0]['top_logprobs']) == 3
    for token in content: # greedy: the most likely token was taken
        assert token['logprob'] == token['top_logprobs'][0]['logprob'] <= 0
        assert bytes(token['bytes']).decode('utf-8', 'replace') or token['token']
    want = program([binary, 'run', '-m', model, '--template', 'chatml', '--system', 'old sailor', '-p',
                    'the red kettle', '-n', '9', '--temp', '0', '--ignore-eos', '--json', '-q'])
    assert text == want['turns'][0]['text']


@case
def several_answers():
    got = server.complete(prompt=[TEXT, QUESTION], n=2, seed=7, max_tokens=6, temperature=1.2, ignore_eos=True,
                          return_token_ids=True)
    assert [choice['index'] for choice in got['choices']] == [0, 1, 2, 3]
    for i, prompt in enumerate([TEXT, TEXT, QUESTION, QUESTION]):
        want = alone(prompt, 6, '--temp', '1.2', '--seed', str(7 + i % 2), '--ignore-eos')
        assert got['choices'][i]['token_ids'] == want['tokens'], i
    assert got['choices'][0]['token_ids'] != got['choices'][1]['token_ids']
    assert got['usage']['completion_tokens'] == 24


@case
def ends():
    whole = server.complete(prompt=TEXT, max_tokens=30, temperature=0, ignore_eos=True)['choices'][0]['text']
    stop = whole[len(whole) // 2:len(whole) // 2 + 6]
    got = server.complete(prompt=TEXT, max_tokens=30, temperature=0, ignore_eos=True, stop=['@never@', stop])
    assert got['choices'][0]['text'] == whole[:whole.index(stop)] and got['choices'][0]['finish_reason'] == 'stop'
    events = server.stream('/v1/completions', prompt=TEXT, max_tokens=30, temperature=0, ignore_eos=True, stop=stop)
    assert ''.join(event['choices'][0]['text'] for event in events) == whole[:whole.index(stop)]
    assert server.complete(prompt=TEXT, max_tokens=0)['choices'][0]['text'] == ''


@case
def probabilities():
    """The log probabilities of an echoed prompt equal those of the same token as an answer that a bias forces."""
    got = server.complete(prompt=QUESTION, max_tokens=0, echo=True, logprobs=1)['choices'][0]
    logprobs = got['logprobs']
    tokens = server.post('/tokenize', content=QUESTION, add_special=True)['tokens']
    assert len(logprobs['tokens']) == len(tokens) and logprobs['token_logprobs'][0] is None
    assert all(p <= 0 for p in logprobs['token_logprobs'][1:])
    assert all(max(top.values()) >= p - 1e-6 for p, top in
               zip(logprobs['token_logprobs'][1:], logprobs['top_logprobs'][1:]))
    assert 'lantern' in got['text']
    head, last = tokens[:-1], tokens[-1]
    forced = server.complete(prompt=head, max_tokens=1, logit_bias={str(last): 100}, logprobs=0, temperature=0,
                             return_token_ids=True)['choices'][0]
    assert forced['token_ids'] == [last]
    assert forced['logprobs']['token_logprobs'][0] == logprobs['token_logprobs'][-1] # without the bias
    top = server.complete(prompt=head, max_tokens=1, logprobs=20, temperature=0)['choices'][0]['logprobs']
    shares = [math.exp(p) for p in top['top_logprobs'][0].values()]
    assert 0 < sum(shares) <= 1.00001


@case
def conversations():
    """The next request continues the previous request's session, with bit-identical results."""
    first = server.complete(prompt=LONG, max_tokens=12, temperature=0, ignore_eos=True, return_token_ids=True)
    tokens = server.post('/tokenize', content=LONG, add_special=True)['tokens'] + first['choices'][0]['token_ids']
    tokens += server.post('/tokenize', content=QUESTION)['tokens']
    fields = dict(prompt=tokens, max_tokens=10, temperature=0, ignore_eos=True, logits_hash=True, return_token_ids=True)
    fresh = server.complete(cache_prompt=False, **fields)
    assert fresh['usage']['prompt_tokens_details']['cached_tokens'] == 0
    went_on = server.complete(**fields)
    assert went_on['usage']['prompt_tokens_details']['cached_tokens'] > 300, went_on['usage']
    assert went_on['choices'][0]['token_ids'] == fresh['choices'][0]['token_ids']
    assert went_on['choices'][0]['logits_hash'] == fresh['choices'][0]['logits_hash']
    fields['kv'] = 'snapkv:budget=64'
    for wanted, switch in ((0, {}), (0, {'cache_prompt': True})): # evicts: only on request
        got = server.complete(**fields, **switch)
        assert got['usage']['prompt_tokens_details']['cached_tokens'] == wanted
    fields['prompt'] = tokens + got['choices'][0]['token_ids'] + tokens[:9]
    assert server.complete(**fields)['usage']['prompt_tokens_details']['cached_tokens'] == 0
    got = server.complete(cache_prompt=True, **fields)
    assert got['usage']['prompt_tokens_details']['cached_tokens'] > 300


@case
def prefixes():
    """Common prefixes of conversations, and a prompt with several answers, are computed once, with bit-identical
    results."""
    words = TEXT.split()
    random.Random(11).shuffle(words)
    head = server.post('/tokenize', content=' '.join(words * 9), add_special=True)['tokens']
    ends = [server.post('/tokenize', content=text)['tokens'] for text in ('red kettle', 'the old sailor', 'harbor')]
    fields = [dict(prompt=head + end, max_tokens=5, temperature=0.9, seed=2, ignore_eos=True, logits_hash=True,
                   return_token_ids=True) for end in ends]
    alone = [server.complete(cache_prompt=False, **each)['choices'][0]['logits_hash'] for each in fields]
    shared = [server.complete(**each) for each in fields]
    assert [each['choices'][0]['logits_hash'] for each in shared] == alone
    cached = [each['usage']['prompt_tokens_details']['cached_tokens'] for each in shared]
    assert cached[:2] == [0, 0] and cached[2] >= len(head), cached # the second one shows the common prefix
    for kv in ('full', 'snapkv:budget=64', 'random:budget=64'):
        fields[0].update(kv=kv, cache_prompt=False)
        before = server.metric('cached_tokens_total')
        got = server.complete(n=3, **fields[0])['choices']
        spared = server.metric('cached_tokens_total') - before
        assert spared == (0 if kv.startswith('random') else 2 * len(fields[0]['prompt'])), (kv, spared)
        for i in range(3):
            each = server.complete(**dict(fields[0], seed=2 + i))['choices'][0]
            assert each['logits_hash'] == got[i]['logits_hash'], (kv, i)
            assert each['token_ids'] == got[i]['token_ids'], (kv, i)


@case
def texts():
    tokens = server.post('/tokenize', content=TEXT)
    assert tokens['count'] == len(tokens['tokens']) > 10
    pieces = server.post('/tokenize', content=TEXT, with_pieces=True)['tokens']
    assert [piece['id'] for piece in pieces] == tokens['tokens']
    assert server.post('/detokenize', tokens=tokens['tokens'])['content'].strip() == TEXT


run()
