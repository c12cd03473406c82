#!/usr/bin/env python3
"""serve_load.py PROGRAM MODEL [CLIENTS,...] [--prompt N] [--gen N] [--rounds N] [SERVER OPTIONS...] - a server under load,
at this machine's loopback address: tokens per second of so many clients at once, and the time to the first token, beside
the steps of `kvcull bench` at the same batch sizes. Every client asks --rounds times, one request after another."""
import argparse
import http.client
import json
import random
import re
import statistics
import subprocess
import threading
import time


def arguments():
    parser = argparse.ArgumentParser(description='a server under load')
    parser.add_argument('program')
    parser.add_argument('model')
    parser.add_argument('clients', nargs='?', default='1,8,32')
    parser.add_argument('--prompt', type=int, default=64)
    parser.add_argument('--gen', type=int, default=64)
    parser.add_argument('--rounds', type=int, default=2)
    return parser.parse_known_args()


def ask(port, tokens, count, firsts):
    """One answer, streamed; the time to its first token and the tokens."""
    begin = time.monotonic()
    connection = http.client.HTTPConnection('127.0.0.1', port)
    connection.request('POST', '/v1/completions', json.dumps(
        {'prompt': tokens, 'max_tokens': count, 'ignore_eos': True, 'temperature': 0, 'stream': True,
         'return_token_ids': True}), {'Content-Type': 'application/json'})
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    seen = 0
    for line in answer:
        if line.startswith(b'data: {'):
            if seen == 0:
                firsts.append(time.monotonic() - begin)
            seen += len(json.loads(line[6:])['choices'][0]['token_ids'])
    connection.close()
    assert seen == count, seen


def load(port, vocab, clients, a):
    firsts = []
    chance = random.Random(1)
    prompts = [[chance.randrange(vocab) for _ in range(a.prompt)] for _ in range(clients * a.rounds)]

    def client(i):
        for r in range(a.rounds):
            ask(port, prompts[i * a.rounds + r], a.gen, firsts)

    begin = time.monotonic()
    threads = [threading.Thread(target=client, args=(i,)) for i in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - begin
    firsts.sort()
    return clients * a.rounds * a.gen / seconds, statistics.median(firsts), firsts[(len(firsts) * 99 - 1) // 100]


def main():
    a, options = arguments()
    sizes = [int(size) for size in a.clients.split(',')]
    server = subprocess.Popen([a.program, 'serve', '-m', a.model, '--port', '0', '--batch', str(max(sizes)), '-q', *options],
                              stdout=subprocess.PIPE, text=True)
    port = int(re.search(r'http://[^ ]*:([0-9]+) ', server.stdout.readline()).group(1))
    try:
        connection = http.client.HTTPConnection('127.0.0.1', port)
        connection.request('GET', '/v1/models')
        vocab = json.loads(connection.getresponse().read())['data'][0]['vocabulary']
        load(port, vocab, 1, a)  # what the first request pays for is not measured
        print('| clients | tokens/s | first token, median | 99th percentile |\n|---|---|---|---|')
        for size in sizes:
            speed, median, last = load(port, vocab, size, a)
            print('| %d | %.1f | %.0f ms | %.0f ms |' % (size, speed, 1000 * median, 1000 * last), flush=True)
    finally:
        server.terminate()
        server.wait()


if __name__ == '__main__':
    main()
