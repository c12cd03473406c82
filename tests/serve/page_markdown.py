"""page_markdown.py BROWSER URL FOLDER - answers in Markdown, harmless and hostile."""

import json

from page_lib import begun, ended, say, start, text

GOOD = '''# A title

Some **strong**, *slanted* and ~~old~~ words with `a < b && c`, a [link](https://example.org/?a=1&b=2), 1 < 2 & 3.

3. three
4. four
   - within

> a quote

```c
if (a < b && *p) /* <b> */
    return "&amp;";
```

| method | bytes |
|---|---|
| snapkv | 5 |

- [x] done
'''

# HTML and addresses that must not become elements that load or run something.
EVIL = [
    '<script>hacked = 1</script>',
    '<img src=x onerror="hacked = 1">',
    '<svg onload="hacked = 1">',
    '<iframe src="//x"></iframe>',
    '<a href="javascript:hacked=1">x</a>',
    '[x](javascript:hacked=1)',
    '[x](JaVaScRiPt:hacked=1)',
    '[x](\x01javascript:hacked=1)',
    '[x](java&#115;cript:hacked=1)',
    '[x](javascript&colon;hacked=1)',
    '[x](data:text/html,<script>hacked=1</script>)',
    '[x](vbscript:hacked)',
    '[x]: javascript:hacked=1\n\n[x]',
    '<javascript:hacked=1>',
    '![x](javascript:hacked=1)',
    '![x](http://127.0.0.1:1/picture.png)',
    '![x" onerror="hacked=1](http://127.0.0.1:1/p.png)',
    '<style>*{display:none}</style>',
    '[x](https://e.org "\\" onmouseover=\\"hacked=1")',
    '```"><script>hacked=1</script>\ncode\n```',
    '`<script>hacked=1</script>`',
    '<form action="//x"><button>x</button></form>',
    '<base href="//x">',
    '<meta http-equiv=refresh content="0;url=//x">',
    '|<img src=x onerror=hacked=1>|b|\n|-|-|\n|<script>hacked=1</script>|[x](javascript:hacked=1)|',
    '[a](//example.org)',
    '[a](#main)',
    '<!--<script>',
    '</div></article></main><h1>out</h1>',
    '<div id="ask"></div>',
    'x' * 3 + '\u202e' + 'y',
    '\0<b>\0',
]
# Texts at which readers of Markdown have hung or overflowed their stack.
HARD = [
    "'> '.repeat(20000) + 'x'",
    "'- '.repeat(20000)",
    "'1. '.repeat(9000)",
    "'['.repeat(20000)",
    "'['.repeat(9000) + ']'.repeat(9000)",
    "'*'.repeat(50000)",
    "'**a '.repeat(20000)",
    "'_a '.repeat(20000)",
    "'*_'.repeat(9000)",
    "'`'.repeat(50000)",
    "'<'.repeat(50000)",
    "'![['.repeat(9000)",
    "('|a'.repeat(1000) + '\\n' + '|-'.repeat(1000))",
    "'[a]('.repeat(9000)",
    "'<a '.repeat(9000)",
    "'a\\n'.repeat(40000)",
    "' '.repeat(50000) + 'x'",
    "Array.from({length: 900}, (x, i) => '  '.repeat(i) + '- a').join('\\n')",
    "Array.from({length: 400}, (x, i) => '> '.repeat(Math.min(i, 49)) + 'a').join('\\n')",
    "'<!--'.repeat(9000)",
    "'[a]: x\\n'.repeat(9000)",
    "'~'.repeat(50000)",
    "'http://a'.repeat(9000)",
    "'x'.repeat(1000000)",
    "'\\\\'.repeat(50000)",
]

FACTS = '''(() => { const box = document.querySelector('.turn:last-child .text');
    const all = [...box.querySelectorAll('*')];
    return {tags: [...new Set(all.map((e) => e.localName))].sort(),
            handlers: all.some((e) => [...e.attributes].some((a) => a.name.startsWith('on') || a.name === 'id')),
            links: [...box.querySelectorAll('a')].map((a) => a.href), text: box.innerText,
            hacked: typeof hacked !== 'undefined', ask: document.querySelectorAll('#ask').length}; })()'''
ALLOWED = set(
    'a blockquote br button code del div em figcaption figure h3 h4 hr li ol p pre span strong table tbody td th '
    'thead tr ul'.split()
)


def answer(page, content):
    """Makes the page show an answer that arrives in pieces."""
    page.run(
        "document.getElementById('anew').click(); document.getElementById('ask').value = ''; window.talks = stream()"
    )
    say(page, 'go on')
    page.until("!byId('stop').hidden")
    page.run('''(async () => { const text = %s; const step = Math.max(1, Math.floor(text.length / 7));
        for (let i = 0; i < text.length; i += step) {
            talks.put(chunk({content: text.slice(i, i + step)}));
            await new Promise((done) => setTimeout(done));
        }
        talks.end(); })()''' % content)
    ended(page)


def well_meant(cases, page):
    answer(page, json.dumps(GOOD))
    facts = page.run(FACTS)
    for tag in 'h3 strong em del code a ol ul li blockquote figure pre table th td'.split():
        cases.that('an element ' + tag, tag in facts['tags'])
    cases.that('the link', facts['links'] == ['https://example.org/?a=1&b=2'], facts['links'])
    cases.that('code as it was written', text(page, '.turn:last-child pre') == GOOD.split('```')[1][2:-1])
    cases.that('characters as they were written', '1 < 2 & 3' in facts['text'] and 'a < b && c' in facts['text'])
    cases.that('the list begins at 3', page.run("document.querySelector('.turn:last-child ol').start") == 3)
    page.browser.call('Browser.grantPermissions', permissions=['clipboardReadWrite', 'clipboardSanitizedWrite'])
    page.click('.turn:last-child figcaption button')
    page.until("document.querySelector('.turn:last-child figcaption button').textContent === 'Copied'")
    cases.that('the code is copied', page.run("navigator.clipboard.readText()") == text(page, '.turn:last-child pre'))
    page.run("window.kept_ = document.querySelector('.turn:last-child h3')")
    cases.that(
        'blocks that have not changed keep their elements',
        page.run('''(() => {
        const box = document.createElement('div'); showMarkdown(box, 'one\\n\\ntwo', false);
        const first = box.firstChild;
        showMarkdown(box, 'one\\n\\ntwo *three*\\n\\nfour', false);
        return first === box.firstChild && box.innerText.includes('three') && box.children.length === 3; })()'''),
    )


def hostile(cases, page):
    for evil in EVIL + ['\n\n'.join(EVIL)]:
        answer(page, json.dumps(evil))
        facts = page.run(FACTS)
        cases.that(
            'nothing runs: ' + evil[:60], not facts['hacked'] and not facts['handlers'] and facts['ask'] == 1, facts
        )
        cases.that('no other elements: ' + evil[:60], set(facts['tags']) <= ALLOWED, facts['tags'])
        cases.that(
            'links to the web only: ' + evil[:60],
            all(link.startswith(('https://e.org', 'http://127.0.0.1:1/')) for link in facts['links']),
            facts['links'],
        )
    for hard in HARD:
        answer(page, hard)
        cases.that('text of ' + hard, page.run("document.querySelector('.turn:last-child').textContent.length") > 10)
    asked = page.run("performance.getEntriesByType('resource').map((one) => new URL(one.name).origin)")
    cases.that('nothing is loaded from elsewhere', set(asked) <= {page.run('location.origin')}, asked)


def without(cases, open_page, url):
    """Removes the Markdown library before the page's own script runs."""
    page = open_page('about:blank')
    page.call(
        'Page.addScriptToEvaluateOnNewDocument', source="Object.defineProperty(window, 'marked', {value: undefined})"
    )
    page.open(url)
    begun(page)
    answer(page, json.dumps(GOOD + EVIL[0]))
    cases.that(
        'plain text', page.run("document.querySelector('.turn:last-child .plain-text').textContent") == GOOD + EVIL[0]
    )
    cases.that('the page says so', page.run("visible(byId('no-markdown')) || !byId('no-markdown').hidden"))
    cases.that('without complaints', (said := page.complaints()) == [], said)


def run(cases, open_page, url, folder):
    page = open_page(url)
    begun(page)
    if page.run('MARKDOWN'):
        cases.that('the page does not say that there is no Markdown', page.run("byId('no-markdown').hidden"))
        well_meant(cases, page)
        hostile(cases, page)
        # The server refuses to forecast for a text that exceeds the context.
        said = [one for one in page.complaints() if 'status of 400' not in one]
        cases.that('the browser complains of nothing', said == [], said)
    else:
        print('built without marked: Markdown is not looked at')
    without(cases, open_page, url)


start(run)
