"""test_fork.py URL [CASE] - cache_prompt "fork", on a server with --cache-prompt and a policy that evicts."""
import sys

from client import Server, case, run, until

server = Server(sys.argv[1])
TEXT = ' '.join(['the magic number for lantern 48 21 . then the old sailor found the red kettle near the harbor .'] * 9)
FIELDS = dict(max_tokens=9, temperature=0.9, seed=4, ignore_eos=True, return_token_ids=True, logits_hash=True)


def tokens_of(text, **fields):
    return server.post('/tokenize', content=text, **fields)['tokens']


text = tokens_of(TEXT, add_special=True)
prompts = [text + tokens_of(question) for question in ('question : the magic number', 'the old sailor found',
                                                       'question : the magic number for lantern 48')]


def ask(prompt, **fields):
    """Returns the hash of the answer's logits, and the number of cached prompt tokens."""
    got = server.complete(prompt=prompt, **{**FIELDS, **fields})
    return got['choices'][0]['logits_hash'], got['usage']['prompt_tokens_details']['cached_tokens']


def refused(**fields):
    error, _ = server.refused('/v1/completions', 400, None, prompt=prompts[0], cache_prompt='fork', max_tokens=4, **fields)
    assert 'no cached session has' in error['message'] and 'send the text first' in error['message'], error


def questions():
    refused()
    refused(stream=True)
    ask(prompts[0], cache_prompt=False) # caches no session
    refused()
    assert server.metric('kept_sessions') == 0
    ask(text, max_tokens=0) # the server keeps this session after it has sent the answer
    until(lambda: server.metric('kept_sessions') == 1)
    first = [ask(prompt, cache_prompt='fork') for prompt in prompts]
    assert [cached for _, cached in first] == [len(text)] * 3, first
    assert len(set(first)) == 3
    again = [ask(prompt, cache_prompt='fork') for prompt in reversed(prompts)]
    assert again[::-1] == first, (again, first)
    until(lambda: server.metric('kept_sessions') == 1)
    several = server.complete(prompt=prompts[0], cache_prompt='fork', n=2, **FIELDS)
    assert several['choices'][0]['logits_hash'] == first[0][0]
    fresh, cached = ask(prompts[0], cache_prompt=False)
    assert cached == 0 and fresh != first[0][0]
    assert ask(prompts[0]) == first[0] # the session itself gives the same answer and is continued
    refused()
    assert ask(prompts[1], kv='full', cache_prompt='fork')[1] == 0 # `full` needs no cached session


def what_it_is():
    for value in ('spoon', 1, [], 'true'):
        error, _ = server.refused('/v1/completions', 400, 'cache_prompt', prompt='x', cache_prompt=value)
        assert 'true, false or "fork"' in error['message'], error


def means():
    """The mean of the first 256 keys is subtracted: a session whose first prompt was shorter is not continued."""
    for length, continued in ((30, False), (255, False), (256, True)):
        first = (text * 3)[:length]
        ask(first, max_tokens=0)
        until(lambda: server.metric('kept_sessions') > 0)
        answer, cached = ask(first + prompts[0])
        assert cached == (length if continued else 0), (length, cached)
        assert answer == ask(first + prompts[0], cache_prompt=False)[0], length


def keeps_nothing():
    refused()
    assert ask(prompts[0], kv='full', cache_prompt='fork')[1] == 0


if len(sys.argv) > 2:
    case(globals()[sys.argv[2]])
else:
    case(questions)
    case(what_it_is)
run()
