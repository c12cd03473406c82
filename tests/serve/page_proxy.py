"""page_proxy.py URL SCRIPT - the server of the page with a script put into it; prints its address, then what the script
posts to /said."""
import http.client
import http.server
import sys
import urllib.parse

parts = urllib.parse.urlsplit(sys.argv[1])
script = open(sys.argv[2]).read()


class Handler(http.server.BaseHTTPRequestHandler):
    def forward(self):
        body = self.rfile.read(int(self.headers.get('Content-Length', 0)))
        if self.path == '/said':
            print(body.decode(), flush=True)
            self.send_response(204)
            self.end_headers()
            return
        connection = http.client.HTTPConnection(parts.hostname, parts.port)
        connection.request(self.command, self.path.split('?')[0], body or None,
                           {'Content-Type': 'application/json'} if body else {})
        answer = connection.getresponse()
        data = answer.read()
        if self.path.startswith('/?'):
            assert "default-src 'none'" in answer.getheader('Content-Security-Policy')
            data = data.replace(b'</body>', b'<script>' + script.encode() + b'</script></body>')
        self.send_response(answer.status)
        self.send_header('Content-Type', answer.getheader('Content-Type'))
        self.send_header('Content-Length', str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = forward

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
print('http://127.0.0.1:%d' % server.server_address[1], flush=True)
server.serve_forever()
