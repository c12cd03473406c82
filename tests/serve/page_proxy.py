"""page_proxy.py URL SCRIPT - the server of the page with a script put into it; prints its address, then what the script
posts to /said. A picture in the page comes only then, so that the page is loaded, and may be photographed, when the
script has ended."""
import http.client
import http.server
import sys
import threading
import urllib.parse

parts = urllib.parse.urlsplit(sys.argv[1])
script = open(sys.argv[2]).read()
said = {}  # by the page's query: whether its script has ended


class Handler(http.server.BaseHTTPRequestHandler):
    def forward(self):
        body = self.rfile.read(int(self.headers.get('Content-Length', 0)))
        if self.path == '/said':
            print(body.decode(), flush=True)
            said[body.decode().split()[0]].set()
            self.send_response(204)
            self.end_headers()
            return
        if self.path.startswith('/wait?'):
            said[self.path[6:]].wait(100)
            self.send_response(204)
            self.end_headers()
            return
        connection = http.client.HTTPConnection(parts.hostname, parts.port)
        connection.request(self.command, self.path.split('?')[0], body or None,
                           {'Content-Type': 'application/json'} if body else {})
        answer = connection.getresponse()
        self.send_response(answer.status)
        self.send_header('Content-Type', answer.getheader('Content-Type'))
        self.end_headers()
        if self.path.startswith('/?'):
            assert "default-src 'none'" in answer.getheader('Content-Security-Policy')
            said[self.path[2:]] = threading.Event()
            self.wfile.write(answer.read().replace(b'</body>',
                                                   b'<img hidden src="wait?%s"><script>%s</script></body>'
                                                   % (self.path[2:].encode(), script.encode())))
        while data := answer.read1():  # streams as they come
            self.wfile.write(data)

    do_GET = do_POST = forward

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
print('http://127.0.0.1:%d' % server.server_address[1], flush=True)
server.serve_forever()
