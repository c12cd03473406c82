"""random_keys.py FIRST COUNT COMMAND... - chats in a pseudo terminal whose user presses random keys: the program must end
well. FIRST is the first of COUNT seeds."""
import fcntl
import os
import pty
import random
import select
import struct
import sys
import termios

KEYS = ['\x1b[A', '\x1b[B', '\x1b[C', '\x1b[D', '\x1b[H', '\x1b[F', '\x1b[3~', '\x1b[1;5C', '\x1b[1;5D', '\x1bOA', '\x1bb',
        '\x1bf', '\x1bd', '\x1b\x7f', '\x1b\r', '\x7f', '\x08', '\x01', '\x02', '\x05', '\x06', '\x0b', '\x0c', '\x0e', '\x10',
        '\x15', '\x17', '\x19', '\r', '\n', '\t', '/st\t', '/policy\r', '\\\r', '"""', 'é', 'e\u0301', '\u0301', '日本',
        '👩\u200d👩\u200d👧', 'hello ', '  ', 'x' * 50, '\x1b', '\x1b[', '\x1b[' + '9' * 30 + '~',
        '\x1b[200~a\r\nb\x1b[31m\0\tc\x1b[201~']
KEYS = [key.encode() for key in KEYS] + [b'\xff\xc3', b'\xe3\x81', b'\x1b[200~\xfe\x80\x1b[201~']
WAIT = 60  # seconds without any output after which the program hangs


class Terminal:
    def __init__(self, command):
        self.output = b''
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            os.environ['TERM'] = 'xterm'
            os.execvp(command[0], command)

    def read(self, wait):
        """Reads the available output. Returns False when the program has ended."""
        while select.select([self.file], [], [], wait)[0]:
            try:
                data = os.read(self.file, 65536)
            except OSError:  # Linux reports this if no process has the other side open
                return False
            self.output += data
            if not data:
                return False
            wait = 0
        return True

    def until(self, text):
        """Waits until further output contains the text."""
        while text not in self.output:
            before = len(self.output)
            assert self.read(WAIT) and len(self.output) > before, (text, self.output[-300:])
        self.output = b''

    def size(self, rows, columns):
        fcntl.ioctl(self.file, termios.TIOCSWINSZ, struct.pack('HHHH', rows, columns, 0, 0))


def chat(seed, command):
    draw = random.Random(seed)
    terminal = Terminal(command)
    terminal.until(b'> ')
    for _ in range(400):
        if draw.random() < 0.03:
            terminal.size(draw.randint(1, 30), draw.randint(1, 100))
        os.write(terminal.file, draw.choice(KEYS))
        assert terminal.read(0), terminal.output[-300:]
    terminal.size(24, 80)
    os.write(terminal.file, b'"""\x15\x01\x0b\x7f' * 60)  # whatever was typed, the result is an empty message
    os.write(terminal.file, b'\x1b\r\x15the end')
    terminal.until(b'the end')
    os.write(terminal.file, b'\x03')
    terminal.until(b'> ')
    os.write(terminal.file, b'\x04')
    while terminal.read(WAIT):
        assert select.select([terminal.file], [], [], WAIT)[0], 'it hangs'
    _, status = os.waitpid(terminal.pid, 0)
    assert status == 0, (seed, status, terminal.output[-300:])


first, count = int(sys.argv[1]), int(sys.argv[2])
for each in range(first, first + count):
    chat(each, sys.argv[3:])
print('%d chats' % count)
