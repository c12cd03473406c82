"""client.py - a client of the server that needs only Python's standard library: requests, streams, and a list of test
cases."""
import http.client
import json
import subprocess
import sys
import threading
import time
import traceback
import urllib.parse

cases = []


def case(function):
    cases.append(function)
    return function


def run():
    """Runs all cases. The last line of output is their number."""
    failed = 0
    for function in cases:
        try:
            function()
        except Exception:
            failed += 1
            print('not ok: ' + function.__name__)
            traceback.print_exc()
    print('%d cases' % len(cases))
    sys.exit(failed != 0)


def until(condition):
    """Waits until the condition holds; fails after a minute."""
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError('the condition did not hold within a minute')


class Server:
    def __init__(self, url, key=None):
        parts = urllib.parse.urlsplit(url)
        self.host, self.port, self.key = parts.hostname, parts.port, key

    def connect(self):
        return http.client.HTTPConnection(self.host, self.port, timeout=120)

    def send(self, method, path, body=None, headers=None):
        """Returns the status, the headers and the body as bytes."""
        given = {} if body is None else {'Content-Type': 'application/json'}
        if self.key:
            given['Authorization'] = 'Bearer ' + self.key
        given.update(headers or {})
        connection = self.connect()
        connection.request(method, path, body, given)
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        return answer.status, answer.headers, data

    def get(self, path):
        return self.send('GET', path)

    def post(self, path, **fields):
        """Returns the answer to a request that must succeed."""
        status, _, data = self.send('POST', path, json.dumps(fields))
        assert status == 200, (status, data)
        return json.loads(data)

    def complete(self, **fields):
        return self.post('/v1/completions', **fields)

    def refused(self, path, status, field, body=None, **fields):
        """Returns the error of a request that must be refused, and the headers. The error must name the field."""
        got, headers, data = self.send('POST', path, json.dumps(fields) if body is None else body)
        assert got == status, (got, status, data)
        error = json.loads(data)['error']
        assert error['message'] and error['type'], error
        assert '/' not in error['message'].replace('/v1/', ''), error
        if field:
            assert error['param'] == field and field in error['message'], error
        return error, headers

    def stream(self, path, **fields):
        """Returns the parsed events of a stream. The last one must be [DONE]."""
        connection = self.connect()
        connection.request('POST', path, json.dumps(dict(fields, stream=True)), {'Content-Type': 'application/json'})
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        assert answer.getheader('Content-Type').startswith('text/event-stream')
        events = [part for part in answer.read().decode().split('\n\n') if part]
        assert all(event.startswith('data: ') for event in events)
        assert events[-1] == 'data: [DONE]', events[-1]
        return [json.loads(event[6:]) for event in events[:-1]]

    def metric(self, name):
        for line in self.get('/metrics')[2].decode().splitlines():
            if line.startswith('kvcull_' + name + ' '):
                return float(line.split()[1])
        raise AssertionError('no metric ' + name)


def together(functions):
    """Runs the functions at the same time. Returns their results in order."""
    results = [None] * len(functions)

    def call(i):
        try:
            results[i] = functions[i]()
        except Exception as error:
            results[i] = error

    threads = [threading.Thread(target=call, args=(i,)) for i in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        if isinstance(result, Exception):
            raise result
    return results


def program(arguments):
    """Runs a command of the program and returns its output, parsed as JSON."""
    return json.loads(subprocess.run(arguments, check=True, capture_output=True).stdout)
