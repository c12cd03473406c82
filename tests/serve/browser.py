"""browser.py - controls Chromium through its debugging pipe, for tests: real keys, mouse and touch, with the page's own
security policy."""

import base64
import json
import os
import select
import subprocess
import time

LIMIT = 120  # seconds; the limit of every wait
KEYS = {
    'Enter': 13,
    'Tab': 9,
    'Escape': 27,
    'ArrowLeft': 37,
    'ArrowUp': 38,
    'ArrowRight': 39,
    'ArrowDown': 40,
    'Home': 36,
    'End': 35,
    ' ': 32,
    'Backspace': 8,
}


class Browser:
    def __init__(self, program, folder):
        ours, theirs = os.pipe(), os.pipe()  # pipes from which the browser reads and to which it writes

        def wire():
            high = [os.dup(ours[0]), os.dup(theirs[1])]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self.process = subprocess.Popen(
            [
                program,
                '--headless=new',
                '--no-sandbox',
                '--disable-gpu',
                '--remote-debugging-pipe',
                '--hide-scrollbars',
                '--no-first-run',
                '--disable-background-networking',
                '--disable-component-update',
                '--force-color-profile=srgb',
                '--user-data-dir=' + folder,
                'about:blank',
            ],
            preexec_fn=wire,
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(ours[0])
        os.close(theirs[1])
        self.out, self.into = ours[1], theirs[0]
        self.rest, self.count, self.answers, self.events = b'', 0, {}, []

    def read(self, seconds):
        """Reads the browser's next messages; waits up to `seconds` for them."""
        if not select.select([self.into], [], [], seconds)[0]:
            return
        data = os.read(self.into, 1 << 20)
        if not data:
            raise SystemExit('the browser has ended')
        *texts, self.rest = (self.rest + data).split(b'\0')
        for text in texts:
            message = json.loads(text)
            if 'id' in message:
                self.answers[message['id']] = message
            else:
                self.events.append(message)

    def call(self, method, session=None, **parameters):
        self.count += 1
        message = {'id': self.count, 'method': method, 'params': parameters}
        if session:
            message['sessionId'] = session
        os.write(self.out, json.dumps(message).encode() + b'\0')
        until = time.monotonic() + LIMIT
        while self.count not in self.answers:
            self.read(1)
            if time.monotonic() > until:
                raise SystemExit('no answer to ' + method)
        answer = self.answers.pop(self.count)
        if 'error' in answer:
            raise SystemExit('%s: %s' % (method, answer['error']))
        return answer['result']

    def close(self):
        try:
            self.call('Browser.close')
        except (SystemExit, OSError):
            pass
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()


class Page:
    def __init__(self, browser, url, wide=1280, high=900, dark=False, touch=False):
        self.browser, self.url = browser, url
        target = browser.call('Target.createTarget', url='about:blank')['targetId']
        self.session = browser.call('Target.attachToTarget', targetId=target, flatten=True)['sessionId']
        for domain in ('Page', 'Runtime', 'Log'):
            self.call(domain + '.enable')
        self.call('Emulation.setFocusEmulationEnabled', enabled=True)
        self.size(wide, high, touch)
        self.dark(dark)
        self.open(url)

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def size(self, wide, high, touch=False):
        self.call('Emulation.setDeviceMetricsOverride', width=wide, height=high, deviceScaleFactor=1, mobile=touch)
        self.call('Emulation.setTouchEmulationEnabled', enabled=touch)

    def dark(self, dark):
        self.call(
            'Emulation.setEmulatedMedia',
            features=[
                {'name': 'prefers-color-scheme', 'value': 'dark' if dark else 'light'},
                {'name': 'prefers-reduced-motion', 'value': 'reduce'},
            ],
        )

    def open(self, url):
        self.call('Page.navigate', url=url)
        self.until("document.readyState === 'complete'")

    def reload(self):
        self.run('window.old = true')
        self.call('Page.reload')
        self.until("!window.old && document.readyState === 'complete'")

    def run(self, script):
        """Returns the value of an expression in the page. Waits for a promise."""
        result = self.call(
            'Runtime.evaluate', expression=script, returnByValue=True, awaitPromise=True, userGesture=True
        )
        if 'exceptionDetails' in result:
            raise AssertionError(result['exceptionDetails'].get('exception', {}).get('description', script))
        return result['result'].get('value')

    def until(self, script):
        end = time.monotonic() + LIMIT
        while not self.run('Boolean(%s)' % script):
            if time.monotonic() > end:
                raise AssertionError('does not become true: ' + script)
            self.browser.read(0.02)

    def key(self, name, shift=False, control=False):
        modifiers = (8 if shift else 0) | (2 if control else 0)
        text = {'Enter': '\r', ' ': ' '}.get(name, '') if not control else ''
        fields = dict(
            key=name, code=name if name != ' ' else 'Space', windowsVirtualKeyCode=KEYS[name], modifiers=modifiers
        )
        self.call('Input.dispatchKeyEvent', type='keyDown', text=text, **fields)
        self.call('Input.dispatchKeyEvent', type='keyUp', **fields)

    def type(self, text):
        self.call('Input.insertText', text=text)

    def place(self, selector):
        """Scrolls an element into view and returns its middle. Waits until the screen shows it."""
        return self.run(
            '''(async () => { const e = document.querySelector(%s); e.scrollIntoView({block: 'center'});
            for (let i = 0; i < 3; i++) await new Promise(requestAnimationFrame);
            const box = e.getClientRects()[0]; return [box.left + box.width / 2, box.top + box.height / 2]; })()'''
            % json.dumps(selector)
        )

    def hover(self, selector):
        x, y = self.place(selector)
        self.call('Input.dispatchMouseEvent', type='mouseMoved', x=x, y=y)

    def click(self, selector):
        x, y = self.place(selector)
        for kind in ('mousePressed', 'mouseReleased'):
            self.call('Input.dispatchMouseEvent', type=kind, x=x, y=y, button='left', clickCount=1)

    def tap(self, selector):
        x, y = self.place(selector)
        self.call('Input.dispatchTouchEvent', type='touchStart', touchPoints=[{'x': x, 'y': y}])
        self.call('Input.dispatchTouchEvent', type='touchEnd', touchPoints=[])

    def picture(self, file, whole=False):
        data = self.call(
            'Page.captureScreenshot',
            format='png',
            captureBeyondViewport=whole,
            **({'clip': dict(self.call('Page.getLayoutMetrics')['cssContentSize'], scale=1)} if whole else {})
        )['data']
        with open(file, 'wb') as out:
            out.write(base64.b64decode(data))

    def complaints(self):
        """Returns what the browser has reported: exceptions, and violations of the page's security policy."""
        said = []
        for event in self.browser.events:
            if event.get('sessionId') != self.session:
                continue
            if event['method'] == 'Runtime.exceptionThrown':
                details = event['params']['exceptionDetails']
                said.append(details.get('exception', {}).get('description', details['text']))
            if event['method'] == 'Log.entryAdded' and event['params']['entry']['level'] == 'error':
                said.append(event['params']['entry']['text'])
        self.browser.events = [event for event in self.browser.events if event.get('sessionId') != self.session]
        return said
