#!/usr/bin/env python3
"""serve_load.py PROGRAM MODEL [CLIENTS,...] [--prompt N] [--gen N] [--rounds N] [--temp T] [--beside URL] [SERVER OPTIONS...]
- measures a server under load on the loopback address, alternating with `kvcull bench` at the same batch sizes.

In each round all clients send a request at once, each for one streamed answer. Then the bench computes the same steps
without a server. The decode speeds are compared: the server's tokens per second, from the first token of the last
client to the last token of the first client, and the bench's batch size divided by its mean step time. The ratio is the
median over the rounds. Finally, while all clients decode, the server's metrics give the share of time in its steps; the
rest is the server's overhead. --beside sends the same texts in every round to another server with OpenAI's interface,
whose answers may end earlier. The server of llama-cpp-python needs --interrupt_requests False; without it, a request
ends the previous one."""
import argparse
import bisect
import http.client
import itertools
import json
import random
import re
import socket
import statistics
import subprocess
import threading
import time
import urllib.parse


def arguments():
    parser = argparse.ArgumentParser(description='a server under load')
    parser.add_argument('program')
    parser.add_argument('model')
    parser.add_argument('clients', nargs='?', default='1,8,32')
    parser.add_argument('--prompt', type=int, default=16)
    parser.add_argument('--gen', type=int, default=64)
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--temp', type=float, default=0, help='temperature; 0 always takes the most likely token')
    parser.add_argument('--beside', help='the URL of another server')
    return parser.parse_known_args()


def token_times(parts):
    """Returns the arrival time of each token. `parts` are pieces of the answer, each with the time when it was read."""
    data, text, came = b''.join(part for part, _ in parts), b'', []  # came: number of bytes of text and arrival time
    ends = list(itertools.accumulate(len(part) for part, _ in parts))
    head, at = data.partition(b'\r\n\r\n')[0], data.index(b'\r\n\r\n') + 4
    assert head.split()[1] == b'200' and b'chunked' in head.lower(), data[:2000]
    while (size := int(data[at:data.find(b'\r\n', at)] or b'0', 16)) > 0:
        begin = data.index(b'\r\n', at) + 2
        text, at = text + data[begin:begin + size], begin + size + 2
        came.append((len(text), parts[bisect.bisect_left(ends, at)][1]))
    assert b'[DONE]' in text, 'the answer was cut off: %s' % text[-300:]
    times, place = [], 0
    for line in text.split(b'\n'):
        place += len(line) + 1
        if line.startswith(b'data: {'):
            choice = json.loads(line[6:])['choices'][0]
            when = came[bisect.bisect_left(came, (place,))][1]
            times += [when] * len(choice.get('token_ids', [0] if choice['text'] else []))
    return times


class Server:
    def __init__(self, url, **fields):
        parts = urllib.parse.urlsplit(url)
        self.at, self.fields = (parts.hostname, parts.port), fields

    def call(self, path, **fields):
        connection = http.client.HTTPConnection(*self.at)
        connection.request('POST' if fields else 'GET', path, json.dumps(fields) if fields else None,
                           {'Content-Type': 'application/json'})
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        return answer

    def ask(self, prompt, count):
        """Returns the arrival time of each token of a streamed answer. The answer is parsed only when it is complete:
        clients share the server's cores, so parsing during the answer would be measured, too."""
        body = json.dumps(dict(self.fields, prompt=prompt, max_tokens=count, stream=True)).encode()
        with socket.create_connection(self.at) as connection:
            begun = time.monotonic()
            connection.sendall(b'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n'
                               b'Content-Type: application/json\r\nContent-Length: %d\r\n\r\n' % len(body) + body)
            parts = []
            while part := connection.recv(1 << 16):
                parts.append((part, time.monotonic()))
        return [begun] + token_times(parts)

    def load(self, prompts, count):
        """Sends all prompts at once. Returns the tokens per second while all clients decode, those of the whole run,
        and the times to the first tokens."""
        answers = [None] * len(prompts)

        def client(i):
            answers[i] = self.ask(prompts[i], count)

        threads = [threading.Thread(target=client, args=(i,)) for i in range(len(prompts))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        answers = [times for times in answers if len(times) > 1]  # an answer may be empty
        begin, end = max(times[1] for times in answers), min(times[-1] for times in answers)
        decoded = sum(begin < t <= end for times in answers for t in times[1:])
        whole = max(times[-1] for times in answers) - min(times[0] for times in answers)
        return (decoded / (end - begin) if decoded else float('nan'), sum(len(times) - 1 for times in answers) / whole,
                [times[1] - times[0] for times in answers])


def share_of_steps(server, prompts, count):
    """Returns the share of time that the engine's steps take while all clients decode, from the server's metrics."""
    def counted():
        lines = [line.decode().split() for line in server.call('/metrics')]
        metrics = {line[0]: float(line[1]) for line in lines if line[0] != '#'}
        return [time.monotonic()] + [metrics['kvcull_decode_' + name] for name in
                                     ('step_seconds_sum', 'steps_total', 'rows_total')]

    thread = threading.Thread(target=server.load, args=(prompts, count))
    thread.start()
    wall = steps = 0
    before = counted()
    while thread.is_alive():
        time.sleep(0.5)
        now = counted()
        seconds, inside, number, rows = [b - a for a, b in zip(before, now)]
        if number > 0 and rows == number * len(prompts):
            wall, steps = wall + seconds, steps + inside
        before = now
    return steps / wall if wall else float('nan')


def bench(a, size, options):
    """Returns the tokens per second of decode steps without a server."""
    out = subprocess.run([a.program, 'bench', '-m', a.model, '--batch', str(size), '--prompt', str(a.prompt), '--gen',
                          str(a.gen), '--repeat', '1', '--json', '-q', *options], check=True, capture_output=True)
    return size / json.loads(out.stdout)['decode'][0]['mean_step_seconds']


def measure(a, size, vocab, ours, other, options):
    """Measures one row of the table."""
    chance = random.Random(size)
    rates, wholes, ratios, firsts, others = [], [], [], [], []
    for _ in range(a.rounds):
        prompts = [[chance.randrange(vocab) for _ in range(a.prompt)] for _ in range(size)]
        rate, whole, first = ours.load(prompts, a.gen)
        rates.append(rate)
        wholes.append(whole)
        firsts += first
        ratios.append(rate / bench(a, size, options))
        if other:
            texts = [json.load(ours.call('/detokenize', tokens=prompt))['content'] for prompt in prompts]
            others.append(other.load(texts, a.gen)[1])
    firsts.sort()
    share = share_of_steps(ours, prompts, 2 * a.gen)
    row = [size, '%.1f' % statistics.median(rates), '%.2f (%.2f to %.2f)' % (statistics.median(ratios), min(ratios), max(ratios)),
           '%.2f' % share,
           '%.1f' % statistics.median(wholes), '%.0f ms' % (1000 * statistics.median(firsts)),
           '%.0f ms' % (1000 * firsts[(len(firsts) * 99 - 1) // 100])]
    return row + (['%.1f' % statistics.median(others)] if other else [])


def main():
    a, options = arguments()
    sizes = [int(size) for size in a.clients.split(',')]
    server = subprocess.Popen([a.program, 'serve', '-m', a.model, '--port', '0', '--batch', str(max(sizes)), '-q', *options],
                              stdout=subprocess.PIPE, text=True)
    try:
        ours = Server(re.search(r'http://\S+', server.stdout.readline()).group(0), temperature=a.temp, ignore_eos=True, return_token_ids=True)
        other = Server(a.beside, temperature=a.temp) if a.beside else None
        vocab = json.load(ours.call('/v1/models'))['data'][0]['vocabulary']
        ours.load([[0]], 8)  # warm-up: the cost of the first request is not measured
        head = ['clients', 'decode, tokens/s', 'of the bench (all rounds)', 'in steps', 'with prompts, tokens/s', 'first token, median', '99th percentile']
        print('| %s |\n|%s' % (' | '.join(head + ['beside it, tokens/s'] * bool(other)), '---|' * (len(head) + bool(other))))
        for size in sizes:
            print('| %s |' % ' | '.join(map(str, measure(a, size, vocab, ours, other, options))), flush=True)
    finally:
        server.terminate()
        server.wait()


if __name__ == '__main__':
    main()
