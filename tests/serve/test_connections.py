"""test_connections.py URL WHAT [MOST PID] - opens as many idle connections as the server accepts, and one more."""
import contextlib
import resource
import select
import socket
import sys

from client import Server, case, run, until

server, what = Server(sys.argv[1]), sys.argv[2]


def closed(connection):
    """Waits for data or the end. Returns whether the server has closed the connection."""
    try:
        return connection.recv(1) == b''
    except ConnectionError:
        return True


def connect(source='127.0.0.1'):
    return socket.create_connection((server.host, server.port), timeout=60, source_address=(source, 0))


def resident():
    """Returns the resident bytes of the server's process."""
    with open('/proc/%s/status' % sys.argv[4]) as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith('VmRSS'))


def answered():
    """Returns whether the server answers a request. Beyond its limit, it closes the connection instead."""
    with contextlib.suppress(ConnectionError):
        return len(server.complete(prompt='the', max_tokens=4)['choices']) == 1


def connections(count):
    """Returns whether the server has this many connections, including that of this request."""
    with contextlib.suppress(ConnectionError):
        return server.metric('connections') == count


def refused(stack):
    """Returns whether the server closes one more connection. It stays open if the server has accepted it or has not
    seen it yet."""
    connection = stack.enter_context(connect())
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(300)) and closed(connection)


def idle():
    most = int(sys.argv[3])
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, most + 64)), hard))
    assert answered()
    before = resident()
    with contextlib.ExitStack() as stack:
        idlers = []
        while len(idlers) < most - 1:
            idlers.append(stack.enter_context(connect()))
            if len(idlers) % 2:  # some have begun a request
                idlers[-1].sendall(b'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nX-Slow: ')
            if len(idlers) % 500 == 0 or len(idlers) == most - 1:
                until(answered)  # other clients are served, at last through the only free connection
        until(lambda: connections(most))
        each = (resident() - before) / most
        print('%.1f KiB each' % (each / 1024))
        assert each < 48 << 10, each
        until(lambda: refused(stack))
        until(lambda: refused(stack))
        for connection in idlers[:8]:
            connection.close()
        until(answered)
        assert server.metric('connections_refused_total') >= 2
        idlers[8].sendall(b'x\r\n\r\n')  # earlier connections still get answers
        assert idlers[8].recv(12) == b'HTTP/1.1 415'
    until(lambda: connections(1))
    assert answered()


def each():
    with contextlib.ExitStack() as stack:
        idlers = [stack.enter_context(connect('127.0.0.2')) for _ in range(5)]
        until(lambda: connections(6))
        with connect('127.0.0.2') as one_too_many:
            assert closed(one_too_many)
        assert answered()  # the limit does not apply to other addresses
        idlers[0].sendall(b'GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n')
        assert idlers[0].recv(12) == b'HTTP/1.1 200'


case(globals()[what])
run()
