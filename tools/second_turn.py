#!/usr/bin/env python3
"""Measures how much time a cached session saves: the time to the first token of a conversation's second turn, with a
policy that evicts. Runs with cache_prompt false and true alternate on one server.

    python3 tools/second_turn.py build/kvcull MODEL [--kv SPEC] [--words N] [--rounds N]
"""
import argparse
import json
import re
import statistics
import subprocess
import time
import urllib.request


def first_token(url, messages, keep):
    """Returns the seconds to the first piece of text, the text of the answer, and its usage."""
    body = {'messages': messages, 'max_tokens': 24, 'temperature': 0, 'stream': True, 'cache_prompt': keep,
            'stream_options': {'include_usage': True}}
    request = urllib.request.Request(url + '/v1/chat/completions', json.dumps(body).encode(),
                                     {'Content-Type': 'application/json'})
    start, seconds, text, usage = time.monotonic(), None, '', {}
    with urllib.request.urlopen(request) as answer:
        for line in answer:
            if not line.startswith(b'data: {'):
                continue
            event = json.loads(line[6:])
            piece = ''.join(choice['delta'].get('content') or '' for choice in event['choices'])
            seconds = time.monotonic() - start if piece and seconds is None else seconds
            text, usage = text + piece, event.get('usage') or usage
    return seconds, text, usage


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('program')
    parser.add_argument('model')
    parser.add_argument('--kv', default='snapkv:budget=512')
    parser.add_argument('--words', type=int, default=1700, help='number of words in the first message; a word has about two tokens')
    parser.add_argument('--rounds', type=int, default=3)
    args = parser.parse_args()
    server = subprocess.Popen([args.program, 'serve', '-m', args.model, '--kv', args.kv, '--port', '0', '-q'],
                              stdout=subprocess.PIPE, text=True)
    try:
        url = re.search(r'http://[\w.:\[\]]+', server.stdout.readline()).group()
        times = {False: [], True: []}
        for number in range(args.rounds):
            for keep in times:
                text = ' '.join(f'entry {i * 7919 % 1000} of list {number}' for i in range(args.words // 5))
                talk = [{'role': 'user', 'content': f'{text}. What is this?'}]
                _seconds, answer, _usage = first_token(url, talk, keep)
                talk += [{'role': 'assistant', 'content': answer}, {'role': 'user', 'content': 'And in one word?'}]
                seconds, _answer, usage = first_token(url, talk, keep)
                times[keep].append(seconds)
        print(f'{args.kv}: a second turn of {usage["prompt_tokens"]} tokens, first token after')
        for keep, values in times.items():
            print(f'    cache_prompt {str(keep).lower():<6} {statistics.median(values):8.3f} s  '
                  f'({min(values):.3f} to {max(values):.3f}, {len(values)} rounds)')
    finally:
        server.terminate()
        server.wait()


if __name__ == '__main__':
    main()
