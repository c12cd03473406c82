"""test_kvcull.py URL PROGRAM KV, or URL keys - the paths and fields that the page needs."""
import json
import subprocess
import sys

from client import Server, case, program, run

server = Server(sys.argv[1])


def keys():
    for method, path in (('GET', '/kvcull'),):
        assert server.send(method, path)[0] == 401
        assert Server(sys.argv[1], 'secret').send(method, path)[0] == 200


# ---- the methods ----

def methods():
    """Beside `kvcull info methods`."""
    status, headers, data = server.get('/kvcull')
    got = json.loads(data)
    assert status == 200 and headers['Content-Type'] == 'application/json'
    assert got['model'] == 'demo' and got['kv'] == sys.argv[3] and got['context'] == 900, got
    assert got['vocabulary'] == json.loads(server.get('/v1/models')[2])['data'][0]['vocabulary']
    assert got['layers'] > 1 and got['heads'] >= 1
    said = subprocess.run([sys.argv[2], '--version'], check=True, capture_output=True).stdout.decode()
    assert got['version'] in said.split()
    want = program([sys.argv[2], 'info', 'methods', '--json'])['methods']
    assert [m['name'] for m in got['methods']] == [m['name'] for m in want]
    for one, other in zip(got['methods'], want):
        assert (one['stage'], one['summary']) == (other['stages'], other['summary'])
        assert [(o['name'], o['default'], o['meaning']) for o in one['options']] == [
            (o['name'], o['default'], o['help']) for o in other['options']]
        assert all(o['takes'] for o in one['options'])
    assert 'skip_layers' in [o['name'] for o in got['common_options']]


if sys.argv[2] == 'keys':
    case(keys)
else:
    case(methods)
run()
