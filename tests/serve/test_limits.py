"""test_limits.py URL WHAT [PID] - what a server refuses, and what it does when memory is short or clients leave."""
import contextlib
import json
import socket
import sys
import time

from client import Server, case, run, together, until

server, what = Server(sys.argv[1]), sys.argv[2]
COMPLETIONS, CHAT = '/v1/completions', '/v1/chat/completions'


def raw(data, read=True):
    """Sends bytes to the server. Returns the first line of its answer or, if `read` is false, closes the connection at
    once."""
    with socket.create_connection((server.host, server.port), timeout=60) as connection:
        try:
            connection.sendall(data)
            return connection.recv(4096).split(b'\r\n')[0] if read else b''
        except OSError: # the server closed the connection before it had read everything
            return b''


def fields_refused():
    for path, field, value in (
            (COMPLETIONS, 'frequency_penalty', 2.1), (COMPLETIONS, 'best_of', 2), (CHAT, 'tools', [{}]),
            (COMPLETIONS, 'temperature', -1), (COMPLETIONS, 'temperature', 'hot'), (COMPLETIONS, 'top_p', 0),
            (COMPLETIONS, 'max_tokens', -2), (COMPLETIONS, 'max_tokens', 1.5), (COMPLETIONS, 'max_tokens', 1e300),
            (COMPLETIONS, 'n', 0), (COMPLETIONS, 'n', 1000), (COMPLETIONS, 'seed', -2), (COMPLETIONS, 'seed', 1e300),
            (COMPLETIONS, 'logprobs', 21), (CHAT, 'logprobs', 3), (CHAT, 'top_logprobs', 3),
            (COMPLETIONS, 'stop', 5), (COMPLETIONS, 'stop', [1]), (COMPLETIONS, 'stop', ['a'] * 17),
            (COMPLETIONS, 'stop', 'x' * 1001), (COMPLETIONS, 'logit_bias', {'x': 1}),
            (COMPLETIONS, 'logit_bias', {'1': 101}), (COMPLETIONS, 'logit_bias', {'999999': 1}),
            (COMPLETIONS, 'logit_bias', {'1e1': 1}), (COMPLETIONS, 'logit_bias', {'-0': 1}),
            (COMPLETIONS, 'logit_bias', []), (COMPLETIONS, 'stream', 1), (COMPLETIONS, 'stream_options', []),
            (COMPLETIONS, 'kv', 'nothing:budget=3'), (COMPLETIONS, 'kv', 'snapkv:budget=x'),
            (COMPLETIONS, 'kv', 'duo:file=/etc/passwd'), (COMPLETIONS, 'kv', 'triattention:budget=9,stats=/etc/x'),
            (COMPLETIONS, 'kv', 'dapq:budget=9,content=file,file=/etc/x'),
            (COMPLETIONS, 'kv', 'kvzap:budget=9,file=every-other'), # a word of another method
            (COMPLETIONS, 'kv', 'qfilter:budget=9,file=drawn+5'), (COMPLETIONS, 'kv', 'duo:file=every'),
            (COMPLETIONS, 'kv', 'expected:budget=9+duo:file="every-other+qfilter:budget=9,file=drawn"'),
            (COMPLETIONS, 'kv', 'x' * 2000), (COMPLETIONS, 'prompt', 5), (COMPLETIONS, 'prompt', [1, 'a']),
            (COMPLETIONS, 'prompt', [[1], 'a', 3]), (COMPLETIONS, 'prompt', [10 ** 7]), (COMPLETIONS, 'prompt', [-1]),
            (COMPLETIONS, 'prompt', ['a'] * 129), (CHAT, 'messages', []), (CHAT, 'messages', ['a']),
            (CHAT, 'messages', [{'content': 'a'}]), (CHAT, 'messages', [{'role': 'user', 'content': 5}]),
            (CHAT, 'messages', [{'role': 'user', 'content': [{'type': 'image_url', 'image_url': {}}]}]),
            (CHAT, 'messages', [{'role': 'user', 'contnt': 'a'}]),
            (CHAT, 'chat_template_kwargs', [])):
        fields = {'prompt': 'the'} if path == COMPLETIONS else {'messages': [{'role': 'user', 'content': 'a'}]}
        fields[field] = value
        server.refused(path, 400, field, **fields)
    error, _ = server.refused(COMPLETIONS, 400, 'n', prompt=['the'] * 65, n=2)
    assert 'prompts times n may be at most 128' in error['message']
    server.refused(COMPLETIONS, 400, 'prompt', max_tokens=3)
    server.refused(CHAT, 400, 'messages')
    server.refused(CHAT, 400, 'messages', messages=[{'role': 'user', 'content': 'a'}],
                   chat_template_kwargs={str(i): 1 for i in range(5000)})
    error, _ = server.refused(COMPLETIONS, 400, None, prompt=[5] * 5000, max_tokens=5)
    assert error['code'] in ('context_length_exceeded', 'too_large')


def words_are_no_files():
    for kv in ('duo:file=every-other', 'triattention:stats=drawn,budget=64', 'kvzap:budget=64,file=drawn',
               'dms:file=drawn', 'expected:budget=64,stats=drawn',
               'qfilter:file=drawn,budget=64+quest:budget=64', 'topk:budget=9+duo:file=every-other,recent=5'):
        answer = server.complete(prompt='the', max_tokens=1, kv=kv)
        assert len(answer['choices']) == 1


def nothing_is_taken_for_null():
    answer = server.complete(prompt='the', max_tokens=1, frequency_penalty=0, presence_penalty=0.0, best_of=1,
                             suffix=None, stop=None, logit_bias=None, user='me', kv=None)
    assert len(answer['choices']) == 1


def bodies_refused():
    deep = '{"prompt":' + '[' * 40000 + ']' * 40000 + '}'
    for body in ('', '{', '[]', '3', '"a"', 'null', '{"prompt":"a"} x', '{"prompt":"a","prompt":"b"}', deep,
                 '{"prompt":"\\ud800"}', '{"prompt":"\\u0000"}', b'{"prompt":"\xff\xfe"}', '{"prompt":' + '9' * 400 + '}',
                 '{"prompt":[' + '1e999,' * 10 + '1]}', '{"a' + 'a' * 5000 + '":1}', '{"prompt":["a"', '\x00' * 50,
                 "{'prompt':'a'}", '{"prompt":[' * 100):
        got, _, data = server.send('POST', COMPLETIONS, body)
        assert got == 400, (got, body[:60], data)
        assert json.loads(data)['error']['message']
    got, _, data = server.send('POST', '/tokenize', '{"content":' + '[' * 70 + ']' * 70 + '}')
    assert got == 400 and b'deep' in data


def http_refused():
    assert server.send('GET', '/nothing')[0] == 404
    assert server.send('GET', '/v1/../etc/passwd')[0] == 404
    status, headers, _ = server.send('GET', COMPLETIONS)
    assert status == 405 and headers['Allow'] == 'POST'
    assert server.send('POST', '/health', '{}')[0] == 405
    assert server.send('POST', COMPLETIONS, '{"prompt":"a"}', {'Content-Type': 'text/plain'})[0] == 415
    big = b'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n'
    assert b' 413 ' in raw(big % (100 << 20))
    assert b' 413 ' in raw(big % (1 << 62))
    chunked = (b'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'
               b'Transfer-Encoding: chunked\r\n\r\n')
    raw(chunked + b'10000\r\n' + b' ' * 65536 + b'\r\n' + b'10000\r\n' + b' ' * 65536 + b'\r\n0\r\n\r\n', read=False)
    for bad in (b'\x00\x01\x02\r\n\r\n', b'GET\r\n\r\n', b'GET / HTTP/9.9\r\n\r\n', b'\r\n' * 1000,
                b'GET /health HTTP/1.1\r\n' + b'X-Flood: ' + b'a' * 100000 + b'\r\n\r\n',
                b'GET /health HTTP/1.1\r\n' + b'X: y\r\n' * 20000 + b'\r\n',
                b'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n',
                b'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'
                b'Content-Length: 50\r\n\r\n{"prompt"'):
        raw(bad, read=False)
    assert server.get('/health')[0] == 200


def hosts_refused():
    """The server refuses Host headers of other sites, whose names an attacker can make resolve to this machine."""
    for host in ('evil.example', 'evil.example:%d' % server.port, 'localhost.evil.example', '127.0.0.1.evil.example',
                 'evil.example/localhost', '[::1].evil.example', '127.0.0.1@evil.example', 'localhost:80:80', '[::1', ''):
        for method, path, body in (('GET', '/', None), ('GET', '/nothing', None), ('POST', COMPLETIONS, '{}')):
            status, _, data = server.send(method, path, body, {'Host': host})
            assert status == 403 and json.loads(data)['error']['code'] == 'host_not_allowed', (host, path, status)
    for host in ('localhost', 'LocalHost:1', '127.0.0.1', '127.0.0.1:%d' % server.port, '[::1]:80', '[::1]'):
        assert server.send('GET', '/health', None, {'Host': host})[0] == 200, host
    assert b' 200 ' in raw(b'GET /health HTTP/1.0\r\n\r\n')


def clients_that_leave():
    """If a client disconnects during its prompt or answer, with a stream or without, the server frees everything for
    it."""
    body = {'prompt': 'the ' * 400, 'max_tokens': 1500, 'ignore_eos': True}
    for stream in (True, False):
        for wait in (0.0, 0.2):
            data = json.dumps(dict(body, stream=stream)).encode()
            connection = socket.create_connection((server.host, server.port))
            connection.sendall(b'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'
                               b'Content-Length: %d\r\n\r\n' % len(data) + data)
            time.sleep(wait)
            connection.close()
    until(lambda: server.metric('running_answers') == 0 and server.metric('queue_requests') == 0)
    until(lambda: server.metric('reserved_bytes') == 0)
    assert server.metric('cancelled_total') >= 2
    connections = [socket.create_connection((server.host, server.port)) for _ in range(200)]
    assert server.complete(prompt='the', max_tokens=1)['choices']
    for connection in connections:
        connection.close()


def bodies_of_all():
    """The bodies of all clients together are limited. Beyond the limit, a request gets status 503 and Retry-After."""
    head = (b'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'
            b'Content-Length: 100000\r\n\r\n')
    body = json.dumps({'prompt': 'the', 'max_tokens': 1}) + ' ' * 90000

    def sent():
        status, headers, data = server.send('POST', COMPLETIONS, body)
        assert status == 200 or (status == 503 and headers['Retry-After'] and b'body' in data), (status, data)
        return status

    def crowded():
        with contextlib.ExitStack() as stack:
            for _ in range(16):
                connection = stack.enter_context(socket.create_connection((server.host, server.port)))
                connection.sendall(head + b' ' * 99000)
            time.sleep(0.2)  # the server may have read all of it by now
            return sent() == 503
    until(crowded)
    until(lambda: sent() == 200)


def full_queue():
    """If there are more requests than may run and wait, some get status 503 and Retry-After, and the others are
    answered."""
    def ask():
        status, headers, data = server.send('POST', COMPLETIONS, json.dumps(
            {'prompt': 'the ' * 50, 'max_tokens': 40, 'ignore_eos': True, 'n': 16}))
        assert status == 200 or (status == 503 and headers['Retry-After']), (status, data)
        return status
    assert 200 in together([ask] * 12)


def refusals():
    for function in (fields_refused, words_are_no_files, nothing_is_taken_for_null, bodies_refused, http_refused,
                     hosts_refused, clients_that_leave, bodies_of_all, full_queue):
        case(function)


def fill():
    """Returns a function that sends a request. Two such requests do not fit in memory together."""
    return lambda: server.send('POST', COMPLETIONS, json.dumps(
        {'prompt': [5 + i % 50 for i in range(900)], 'max_tokens': 100, 'ignore_eos': True}))


def never_fits():
    error, _ = server.refused(COMPLETIONS, 400, None, prompt=[[5] * 1900], max_tokens=100)
    assert error['code'] == 'too_large', error
    server.complete(prompt=[[5] * 1900], max_tokens=10, kv='streaming:budget=64')


def waits_for_others():
    for status, _, data in together([fill()] * 5):
        assert status == 200, data
    assert server.metric('limit_bytes') == 2800 << 10
    assert server.metric('kept_bytes') <= 2800 << 10


def waits():
    case(never_fits)
    case(waits_for_others)


def one_alone_is_answered():
    status, _, data = fill()()
    assert status == 200, data


def some_are_sent_away():
    for _ in range(10):
        got = together([fill()] * 6)
        assert all(status == 200 or (status == 503 and headers['Retry-After']) for status, headers, _ in got)
        if any(status == 503 for status, _, _ in got):
            return
    raise AssertionError('all were answered')


def sent_away():
    case(one_alone_is_answered)
    case(some_are_sent_away)


def connect_narrow():
    """Opens a connection with a small receive buffer."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect((server.host, server.port))
    return connection


def readers_that_do_not_read():
    """Unread output counts in --mem. When there is no room for more, its answers end and others continue. The output's
    size is polled, so a slow client may miss the maximum; then the case is repeated."""
    until(lambda: one_that_does_not_read() > 128 << 10)


def one_that_does_not_read():
    """Returns the largest number of unread bytes seen until an answer was ended."""
    body = json.dumps({'prompt': 'the', 'max_tokens': 1500, 'ignore_eos': True, 'n': 16, 'logprobs': 20, 'stream': True})
    head = 'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n'
    idlers, most = [], 0
    for _ in range(2):
        idlers.append(connect_narrow())
        idlers[-1].sendall((head % len(body) + body).encode())
    cancelled, answers = server.metric('cancelled_total'), server.metric('answers_total')
    while server.metric('cancelled_total') == cancelled:
        most = max(most, server.metric('buffered_bytes'))
        assert server.metric('answers_total') - answers < 32, 'all was kept for them'
    assert most <= server.metric('limit_bytes')
    for connection in idlers:
        connection.close()
    server.complete(prompt='the', max_tokens=3)
    until(lambda: server.metric('buffered_bytes') == 0)
    return most


def reader_that_reads_late():
    """The memory of unread output is freed once the client reads it. The output is larger than a socket's buffer, and
    fits in memory next to the sessions, however late the client reads."""
    connection = server.connect()
    connection.sock = connect_narrow()
    connection.request('POST', COMPLETIONS, json.dumps({'prompt': 'the', 'max_tokens': 300, 'ignore_eos': True, 'n': 16,
                       'logprobs': 20, 'stream': True}), {'Content-Type': 'application/json'})
    answer = connection.getresponse()
    until(lambda: server.metric('buffered_bytes') > 200000)
    text = answer.read()
    assert text.endswith(b'data: [DONE]\n\n') and text.count(b'"finish_reason":"length"') == 16
    until(lambda: server.metric('buffered_bytes') == 0)


def slow():
    case(readers_that_do_not_read)


def late():
    case(reader_that_reads_late)


def resident():
    """Returns the resident bytes of the server's process."""
    with open('/proc/%s/status' % sys.argv[3]) as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith('VmRSS'))


def what_waits_is_small():
    """While a request waits, the server holds no more of its body than the answer needs."""
    def send(**fields):
        body = json.dumps(dict(fields, prompt='the', max_tokens=1500, ignore_eos=True, n=128, stream=True))
        connection = stack.enter_context(contextlib.closing(server.connect()))
        connection.request('POST', COMPLETIONS, body, {'Content-Type': 'application/json'})
    with contextlib.ExitStack() as stack:
        send()
        until(lambda: server.metric('running_answers') == 1)
        before = resident()
        for i in range(60):
            send(user='u' * (1 << 20))
        until(lambda: server.metric('queue_requests') == 60)
        more = resident() - before
        assert more < 45 << 20, more  # the texts alone have 60 MiB; the allocator may hold up to 23 MiB
    until(lambda: server.metric('running_answers') == 0 and server.metric('queue_requests') == 0)


def waiting():
    case(what_waits_is_small)


def keys_are_asked_for():
    assert server.get('/health')[0] == 200
    for key in (None, 'first', 'first-key2', 'FIRST-KEY', '# of two people', '', 'x' * 1000):
        status, headers, data = Server(sys.argv[1], key).get('/v1/models')
        assert status == 401 and headers['WWW-Authenticate'] == 'Bearer', (key, status)
        assert json.loads(data)['error']['code'] == 'invalid_api_key'
        assert Server(sys.argv[1], key).send('POST', COMPLETIONS, '{"prompt":"a"}')[0] == 401
    for key in ('first-key', 'second-key-2'):
        assert Server(sys.argv[1], key).get('/v1/models')[0] == 200
    for host, wanted in (('models.example.org', 200), ('MODELS.example.org:8443', 200), ('localhost', 200),
                         ('example.org', 403)):
        assert server.send('GET', '/health', None, {'Host': host})[0] == wanted, host


def keys():
    case(keys_are_asked_for)


def hold():
    """Starts a stream and does not read it to its end."""
    connection = Server(sys.argv[1]).connect()
    connection.request('POST', COMPLETIONS, json.dumps({'prompt': 'the', 'max_tokens': 1900, 'ignore_eos': True,
                       'n': 16, 'logprobs': 20, 'stream': True}), {'Content-Type': 'application/json', 'Authorization': 'Bearer first-key'})
    print(connection.getresponse().readline(), flush=True)
    time.sleep(60)


def refuses():
    try:
        socket.create_connection((server.host, server.port), timeout=5).close()
    except OSError:
        sys.exit(0)
    sys.exit(1)


globals()[what]()
if what not in ('hold', 'refuses'):
    run()
