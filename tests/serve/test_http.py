"""test_http.py URL [LOG] - ambiguous requests, names of models, HEAD, pages of other sites, and compressed bodies. With
LOG, only the lines that the server writes to that file."""
import gzip
import json
import re
import socket
import sys
import time

from client import Server, case, cases, run

server, log = Server(sys.argv[1]), sys.argv[2:]
COMPLETIONS, CHAT = '/v1/completions', '/v1/chat/completions'
PROMPT = b'{"prompt":"the","max_tokens":1}'
# Bytes sent after a request. If the server reads them as a separate request, it answers 204.
LAST = b'OPTIONS /health HTTP/1.1\r\nHost: localhost\r\n\r\n'


def statuses(data):
    """Sends these bytes, then LAST, and returns the statuses of the answers. If LAST is answered, its 204 is left out;
    otherwise the list ends with None, because the server closed the connection."""
    answer = b''
    with socket.create_connection((server.host, server.port), timeout=60) as connection:
        try:
            connection.sendall(data + LAST)
            while more := connection.recv(1 << 16):
                answer += more
        except ConnectionError: # the server closed the connection before it had read everything
            pass
    got = [int(status) for status in re.findall(rb'HTTP/1\.[01] ([0-9]+) [A-Z]', answer)]
    return got[:-1] if got[-1:] == [204] else got + [None]


def post(*headers, body=b''):
    return b'\r\n'.join((b'POST /v1/completions HTTP/1.1', b'Host: localhost', b'Content-Type: application/json')
                        + headers) + b'\r\n\r\n' + body


def get(*lines):
    return b'\r\n'.join(lines) + b'\r\n\r\n'


def refused(data, wanted=400):
    """Checks that the server refuses the bytes and ignores what follows them. (libmicrohttpd 0.9.75 writes the head of
    its own refusals twice; 1.0 refuses an unknown Transfer-Encoding with 501.)"""
    got = statuses(data)
    assert got in ([wanted, None], [wanted, wanted, None], [501, None]), (data, got)


LENGTH = b'Content-Length: %d' % len(PROMPT)
CHUNKED = b'%x\r\n%s\r\n0\r\n\r\n' % (len(PROMPT), PROMPT)


@case
def well_formed():
    assert statuses(post(LENGTH, body=PROMPT) * 3) == [200] * 3
    assert statuses(post(b'Transfer-Encoding: chunked', body=CHUNKED))[0] == 200
    assert statuses(post(b'transfer-encoding:Chunked', body=CHUNKED))[0] == 200
    assert statuses(get(b'GET /health HTTP/1.1', b'Host:localhost', b'X-Tab: a\tb', b'X:', b'Y: \xc3\xa9')) == [200]
    assert statuses(get(b'GET /health?a=%00&b HTTP/1.1', b'Host: localhost')) == [200]
    assert statuses(get(b'GET /health HTTP/1.0')) == [200, None]
    assert statuses(get(b'GET /%68ealth HTTP/1.1', b'Host: localhost')) == [200]
    assert statuses(get(b'GET http://localhost:1/health HTTP/1.1', b'Host: localhost')) == [200]
    assert statuses(get(b'GET /health HTTP/1.1', b'Host: localhost') * 3) == [200] * 3


@case
def lengths():
    for headers in ((LENGTH, LENGTH), (LENGTH, b'Content-Length: 0'), (LENGTH, b'content-length: 3'),
                    (b'Content-Length: +31',), (b'Content-Length: 0x1f',), (b'Content-Length: 31, 31',),
                    (b'Content-Length: ',), (b'Content-Length: -1',), (b'Content-Length: 3 1',)):
        refused(post(*headers, body=PROMPT))
    for headers in ((b'Transfer-Encoding: chunked', LENGTH), (LENGTH, b'Transfer-Encoding: chunked'),
                    (b'Transfer-Encoding : chunked',), (b'Transfer-Encoding\t: chunked',),
                    (b'Transfer-Encoding: xchunked',), (b'Transfer-Encoding: chunked, chunked',),
                    (b'Transfer-Encoding: gzip, chunked',), (b'Transfer-Encoding: identity',),
                    (b'Transfer-Encoding: "chunked"',), (b'Transfer-Encoding: \x0bchunked',),
                    (b'Transfer-Encoding: chunked', b'Transfer-Encoding: chunked'), (b'Transfer-Encoding:',),
                    (b'Transfer-Encoding:\r\n chunked',), (b'X: y\r\n\tz', LENGTH), (b'X: y\r\n z',),
                    (b'X: y\rTransfer-Encoding: chunked',), (b'X: y\nTransfer-Encoding: chunked\nZ: z',),
                    (b'X: y\0', LENGTH), (LENGTH + b'\0',), (b'Transfer-Encoding: chunked\0x',), (b'\0X: y', LENGTH),
                    (b'X: y\r\n\0', LENGTH), (b' Transfer-Encoding: chunked',), (b'X', LENGTH), (b': y', LENGTH),
                    (b'X y: z', LENGTH), (b'X(y): z', LENGTH), (b'X: a\x01b', LENGTH), (b'X: a\x7fb', LENGTH)):
        refused(post(*headers, body=CHUNKED))
    refused(post(b'Transfer-Encoding: chunked', body=CHUNKED).replace(b'HTTP/1.1', b'HTTP/1.0'))
    for chunk in (b'g\r\n', b'-1\r\n', b'+1\r\n', b'0x1\r\n', b' 1\r\n', b'1 \r\n', b'\r\n', b';a\r\n', b'1\r\nab\r\n'):
        refused(post(b'Transfer-Encoding: chunked', body=chunk + b'0\r\n\r\n'))


@case
def lines_and_targets():
    host = b'Host: localhost'
    for lines in ((b'GET /health HTTP/1.1',), (b'GET /health HTTP/1.1', host, host),
                  (b'GET /health HTTP/1.1', host, b'host: 127.0.0.1'), (b'GET /metrics%00x HTTP/1.1', host),
                  (b'GET /metrics%00 HTTP/1.1', host), (b'GET /metrics%0a HTTP/1.1', host),
                  (b'GET /metrics%7f HTTP/1.1', host), (b'GET /metrics% HTTP/1.1', host),
                  (b'GET /metrics%2 HTTP/1.1', host), (b'GET /metrics%zz HTTP/1.1', host),
                  (b'GET /metrics\x01 HTTP/1.1', host), (b'GET metrics HTTP/1.1', host),
                  (b'GET  /metrics HTTP/1.1', host), (b'GET /metrics  HTTP/1.1', host),
                  (b'GET /me trics HTTP/1.1', host),
                  (b'GET /metrics HTTP/1.1 ', host), (b'GET /metrics', host),
                  (b'GET /metrics http/1.1', host), (b'CONNECT localhost:80 HTTP/1.1', host)):
        refused(get(*lines))
    refused(b'GET /health HTTP/1.1\nHost: localhost\n\n')
    refused(get(b'GET /health HTTP/2.0', host), 505)
    for line in (b'GET\t/metrics\tHTTP/1.1', b'GET /metrics\0x HTTP/1.1', b'GET\0 /metrics HTTP/1.1',
                 b'GET /metrics HTTP/1.1\0'):
        got = statuses(get(line, host))  # libmicrohttpd does not answer all of these
        assert got in ([400, None], [None]), (line, got)
    for path in (b'/v1/../metrics', b'/v1/%2e%2e/metrics', b'/v1%2fmodels', b'/v1%2Fmodels', b'//metrics', b'/metrics/',
                 b'/./metrics', b'/metrics;x', b'/METRICS', b'/v1\\models', b'/metrics%20', b'/metrics%2500',
                 b'/v1/models/', b'http://localhost', b'http://localhost/nothing', b'*'):
        wanted = 200 if path == b'http://localhost' else 404
        assert statuses(get(b'GET ' + path + b' HTTP/1.1', host))[0] == wanted, path
    for path in (b'http://evil.example/metrics', b'HTTPS://evil.example/metrics', b'http:///metrics',
                 b'http://localhost@evil.example/metrics'):
        assert statuses(get(b'GET ' + path + b' HTTP/1.1', host))[0] == 403, path
    for method in (b'get', b'PUT', b'DELETE', b'TRACE', b'PATCH', b'GETT', b'G' * 1000):
        assert statuses(get(method + b' /metrics HTTP/1.1', host))[0] == 405, method
    assert statuses(get(b'GET /health HTTP/1.1', host, b'X: ' + b'a' * 100000))[0] in (431, None)
    assert statuses(get(b'GET /' + b'a' * 100000 + b' HTTP/1.1', host))[0] in (414, None)
    assert server.get('/health')[0] == 200


@case
def models_by_name():
    for path in ('/v1/models/the%2Fdemo', '/v1/models/the/demo', '/v1/models/the%2fdem%6f'):
        status, _, data = server.get(path)
        assert status == 200 and json.loads(data)['id'] == 'the/demo', (path, data)
    one = json.loads(server.get('/v1/models/the%2Fdemo')[2])
    assert one == json.loads(server.get('/v1/models')[2])['data'][0]
    for name in ('other', 'the', 'the%2Fdemo%2F', 'the%252Fdemo', 'the%2Fdemox'):
        status, _, data = server.get('/v1/models/' + name)
        assert status == 404 and json.loads(data)['error']['code'] == 'model_not_found', (name, data)


@case
def heads():
    for path in ('/', '/health', '/v1/models', '/metrics', '/v1/models/the/demo'):
        whole, short = server.get(path), server.send('HEAD', path)
        assert short[0] == 200 and short[2] == b'' and short[1]['Content-Type'] == whole[1]['Content-Type'], path
        if path != '/metrics':
            assert short[1]['Content-Length'] == str(len(whole[2])), path
    assert server.send('HEAD', '/nothing')[0] == 404
    status, headers, _ = server.send('HEAD', COMPLETIONS)
    assert status == 405 and headers['Allow'] == 'POST'
    assert server.send('POST', '/health', '{}')[1]['Allow'] == 'GET, HEAD'


@case
def bodies_of_many_values():
    status, _, data = server.send('POST', '/tokenize', '{"content":[' + '0,' * 2**20 + '0]}')
    assert status == 400 and b'more than 1048576 values' in data, (status, data)


@case
def compressed_bodies():
    for coding in ('gzip', 'deflate', 'br', 'zstd', 'x', 'gzip, identity'):
        status, headers, data = server.send('POST', COMPLETIONS, gzip.compress(PROMPT), {'Content-Encoding': coding})
        assert status == 415 and headers['Accept-Encoding'] == 'identity' and b'compression' in data, coding
    assert server.send('POST', COMPLETIONS, PROMPT, {'Content-Encoding': 'identity'})[0] == 200
    for kind, wanted in (('application/json; charset=utf-8', 200), ('Application/JSON', 200),
                         ('application/json-seq', 415), ('application/jsonx', 415),
                         ('application/x-www-form-urlencoded', 415), ('', 415)):
        assert server.send('POST', COMPLETIONS, PROMPT, {'Content-Type': kind})[0] == wanted, kind


@case
def other_origins():
    """Pages of origins that --cors-origin names may read answers after a preflight request; other pages may not."""
    asks = {'Access-Control-Request-Method': 'POST', 'Access-Control-Request-Headers': 'authorization,content-type,x-a'}
    for origin, wanted in (('https://app.example', 'https://app.example'),
                           ('http://localhost:3000', 'http://localhost:3000'),
                           ('https://evil.example', None), ('https://app.example.evil', None), ('null', None)):
        status, headers, data = server.send('OPTIONS', CHAT, None, dict(asks, Origin=origin))
        assert status == 204 and data == b'' and headers['Vary'] == 'Origin', (origin, status)
        assert headers['Access-Control-Allow-Origin'] == wanted, origin
        assert (headers['Access-Control-Allow-Headers'] == asks['Access-Control-Request-Headers']) == bool(wanted)
        assert ('POST' in (headers['Access-Control-Allow-Methods'] or '')) == bool(wanted)
        for method, path, body in (('GET', '/health', None), ('POST', COMPLETIONS, PROMPT), ('POST', COMPLETIONS, b'{'),
                                   ('POST', COMPLETIONS, b'{"prompt":"the","max_tokens":1,"stream":true}')):
            got = server.send(method, path, body, {'Origin': origin})[1]
            assert got['Access-Control-Allow-Origin'] == wanted and got['Vary'] == 'Origin', (origin, path)
    assert server.send('OPTIONS', '/nothing', None, dict(asks, Origin='https://app.example'))[0] == 404


@case
def plain_messages():
    """Error messages are plain and do not quote a library."""
    for body, wanted in ((b'{"prompt":"\\u0000"}', r'line 1, column \d+: .*NUL'), (b'{"prompt":"a"', 'ends too early'),
                         (b'{"prompt":"a"} x', 'follows its end'), (b'{"prompt":"\xff"}', 'UTF-8'),
                         (b'{"prompt":"a","prompt":"b"}', 'twice'), (b'{"a\\u0000b":1}', 'NUL'),
                         (b'{"prompt":1e999}', 'too large'), (b'{\n  prompt: 1}', r'line 2, column \d+')):
        data = server.send('POST', COMPLETIONS, body)[2]
        message = json.loads(data)['error']['message']
        assert re.search(wanted, message), (body, message)
        assert not re.search('JSON_|near|[a-z]+_[a-z]+', message), (body, message)
    assert ' to 9007199254740992' in server.refused(COMPLETIONS, 400, 'seed', prompt='a', seed=1e300)[0]['message']


def logged(ask):
    """Returns the line that the server logs for this request. The line may appear after the answer."""
    def lines():
        with open(log[0]) as file:
            return file.read().splitlines()
    before = len(lines())
    ask()
    for _ in range(1000):
        if len(lines()) > before:
            break
        time.sleep(0.01)
    line, = lines()[before:]
    return line


def log_of_requests():
    """Each request gets exactly one line, whatever bytes it has, and the line shows nothing of its contents."""
    secret, host = 'kettle', b'Host: localhost'
    when, tokens = r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ ', r' in=\d+ cached=0 out=%d first=\d+\.\d{3}'
    for ask, wanted in (
            (lambda: server.complete(prompt=secret * 3, max_tokens=4, ignore_eos=True, user=secret, stop=secret),
             'POST /v1/completions 200' + tokens % 4),
            (lambda: server.stream(CHAT, messages=[{'role': 'user', 'content': secret}], max_tokens=3, ignore_eos=True),
             'POST /v1/chat/completions 200' + tokens % 3),
            (lambda: server.get('/health?' + secret), 'GET /health 200'),
            (lambda: server.send('POST', COMPLETIONS, '{"prompt":"' + secret, {'X-Said': secret}),
             'POST /v1/completions 400'),
            (lambda: statuses(get(b'GET /\x1b[31m\xc2\x9b%s%%0d%%0a HTTP/1.1' % (b'a' * 500), host)),
             r'GET /\?\[31m\?\?a+ 400'),
            (lambda: statuses(get(b'GET /a%0a2026 HTTP/1.1', host)), 'GET /a%0a2026 400'),
            (lambda: statuses(get(b'\x1b[2J\x9b /health HTTP/1.1', host)), r'\?\[2J\? /health 405')):
        line = logged(ask)
        assert re.fullmatch(when + wanted + r' all=\d+\.\d{3}', line), (line, wanted)
        assert secret not in line and line.isprintable() and len(line) < 400, line
    ask = {'max_tokens': 1, 'ignore_eos': True}
    assert ' in=9 cached=0 out=1 ' in logged(lambda: server.complete(prompt=[5] * 9, **ask))
    assert ' in=24 cached=9 out=2 ' in logged(lambda: server.complete(prompt=[[5] * 12, [6] * 12], **ask))


if log:
    cases[:] = [log_of_requests]
run()
