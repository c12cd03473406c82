"""page_lib.py - shared by the tests of the page: prints failed cases, and lets a test answer the page's requests."""

import sys

from browser import Browser, Page

# Runs in the page. `asked` collects the page's requests. `instead`, unless null, answers them in place of the server.
# stream() makes an answer that sends what is put into it, until it is closed or fails.
WATCH = '''
window.asked = []; window.instead = null; window.seen = [];
window.fetch = ((real) => (path, options) => {
    if (!path.endsWith('chat/completions')) return real(path, options);
    asked.push(JSON.parse(options.body));
    return instead ? instead(options.signal) : real(path, options);
})(window.fetch);
window.receive = ((real) => (answer, event) => { seen.push(event); return real(answer, event); })(window.receive);
window.chunk = (delta, more = {}) => 'data: ' + JSON.stringify({choices: [{delta, ...more}]}) + '\\n\\n';
window.stream = () => {
    let to;
    const body = new ReadableStream({start: (controller) => { to = controller; }});
    instead = async (signal) => {
        signal.addEventListener('abort', () => { try { to.error(signal.reason); } catch { /* it is over */ } });
        return new Response(body);
    };
    return {put: (text) => to.enqueue(new TextEncoder().encode(text)), close: () => to.close(),
            end: () => { to.enqueue(new TextEncoder().encode('data: [DONE]\\n\\n')); to.close(); },
            fail: () => to.error(new TypeError('network error'))};
};
window.visible = (e) => { const box = e.getBoundingClientRect(); return box.bottom > 0 && box.bottom <= innerHeight; };
'''


class Cases:
    def __init__(self):
        self.passed = self.failed = 0

    def that(self, name, good, *more):
        if good:
            self.passed += 1
        else:
            self.failed += 1
            print('FAILED:', name, *more)

    def end(self):
        print('%d cases' % self.passed)
        sys.exit(1 if self.failed else 0)


def begun(page):
    """Waits until the page has loaded the server's data, then records its further requests."""
    page.until("document.documentElement.dataset.ready === 'yes'")
    page.run(WATCH)


def ended(page):
    page.until("!busy && !duel")


def say(page, text):
    """Types a message and sends it with Enter."""
    page.run("document.getElementById('ask').focus()")
    page.type(text)
    page.key('Enter')


def talk(page, text):
    say(page, text)
    ended(page)


def text(page, selector):
    return page.run("document.querySelector('%s').textContent" % selector)


def start(run):
    """Calls run(cases, page maker, the page's address, folder) with the browser, address and folder of the command
    line."""
    cases, browser = Cases(), Browser(sys.argv[1], sys.argv[3] + '/profile')
    try:
        run(cases, lambda *a, **k: Page(browser, *a, **k), sys.argv[2], sys.argv[3])
    finally:
        browser.close()
    cases.end()
