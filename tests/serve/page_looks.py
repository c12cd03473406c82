"""page_looks.py BROWSER URL FOLDER PICTURES - the page at 1280 and 390 pixels, light and dark: contrasts, labels, the
keyboard, and pictures, which go to the folder PICTURES."""

import importlib.util
import json
import os
import sys

from page_lib import begun, ended, start, talk

TEXT = (
    'the old sailor found the red kettle near the harbor . the magic number for lantern 48 21 . '
    'then the lazy baker counted the red otter behind the hill . ' * 4 + 'question : the magic number for lantern'
)
MARKDOWN = '''Some **Markdown** with `code`, a [link](https://example.org) and a list:

1. one
2. two

```python
def held(cache):
    return len(cache)
```

> a quote

| method | bytes |
|---|---|
| snapkv | 5 |
'''


def axe_file():
    """Returns the file of axe-core if a Python package contains it."""
    for package in ('axe_core_python', 'axe_playwright_python'):
        spec = importlib.util.find_spec(package)
        for root in spec.submodule_search_locations if spec else []:
            for folder, _, names in os.walk(root):
                if 'axe.min.js' in names:
                    return os.path.join(folder, 'axe.min.js')
    return None


def looked_at(cases, page, name):
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'page_looks.js'), encoding='utf-8') as script:
        page.run(script.read() + ';1')
    for kind in ('texts', 'fields', 'labels', 'width'):
        wrong = page.run('looks.%s()' % kind)
        cases.that('%s: %s' % (name, kind), wrong == [], '; '.join(wrong[:6]))
    page.picture('%s/page-%s.png' % (sys.argv[4], name), whole=True)
    axe = axe_file()
    if axe:
        with open(axe, encoding='utf-8') as script:
            page.run(script.read() + ';1')
        wrong = page.run(
            '''axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']})
            .then((said) => said.violations.map((one) => one.id + ': ' + one.nodes.map((node) => node.target + ' ' +
                (node.any[0] ? node.any[0].message : '')).slice(0, 3).join(', ')))'''
        )
        cases.that('%s: axe' % name, wrong == [], '; '.join(wrong))


def by_keyboard(cases, page, name):
    """Tab reaches every control, and each control shows that it has the focus."""
    page.run("document.activeElement.blur(); scrollTo(0, 0); window.left = new Set(looks.stops()); window.blind = []")
    for _ in range(page.run('left.size') + 3):
        page.key('Tab')
        page.run('''(() => { const e = document.activeElement, style = getComputedStyle(e); left.delete(e);
            if (e !== document.body && (style.outlineStyle === 'none' || parseFloat(style.outlineWidth) < 2))
                blind.push(looks.name(e));
        })()''')
    cases.that(
        '%s: all is reached by Tab' % name,
        page.run('[...left].map(looks.name)') == [],
        page.run('[...left].map(looks.name)'),
    )
    cases.that('%s: the focus is seen' % name, page.run('blind') == [], page.run('blind'))


def one(cases, open_page, url, wide, high, dark):
    name = '%d-%s' % (wide, 'dark' if dark else 'light')
    page = open_page(url + '#compare', wide, high, dark=dark, touch=wide < 600)
    begun(page)
    page.run("byId('question').value = %s; byId('duel-most').value = 30; byId('duel-send').click()" % json.dumps(TEXT))
    page.until('asked.length === 2')
    ended(page)
    page.run("sides[1].view.lookAt(20)")
    page.until('sides.every((side) => side.policy.said)')
    looked_at(cases, page, 'compare-' + name)
    by_keyboard(cases, page, 'compare-' + name)
    page.open(url + '#chat')
    page.reload()
    begun(page)
    looked_at(cases, page, 'empty-' + name)
    page.run("byId('most').value = 40; document.querySelector('.side details').open = true")
    talk(page, TEXT)
    page.run("window.talks = stream()")
    page.run("byId('ask').focus()")
    page.type('show me some Markdown')
    page.key('Enter')
    page.until("!byId('stop').hidden")
    page.run("talks.put(chunk({content: %s, reasoning_content: 'a thought'})); talks.end()" % json.dumps(MARKDOWN))
    ended(page)
    page.run(
        "instead = null; byId('wrong').textContent = 'An error looks like this.'; policyForm.wrong('an error')"
    )
    looked_at(cases, page, 'chat-' + name)
    by_keyboard(cases, page, 'chat-' + name)
    cases.that('the browser complains of nothing', (said := page.complaints()) == [], said)


def run(cases, open_page, url, folder):
    if not axe_file():
        print('no axe-core (pip install axe-core-python): its rules are not checked')
    for wide, high in ((1280, 900), (390, 844)):
        for dark in (False, True):
            one(cases, open_page, url, wide, high, dark)
    narrow = open_page(url + '#compare', 320, 700)  # the width at 400 % zoom
    begun(narrow)
    looked_at(cases, narrow, 'compare-320-light')


start(run)
