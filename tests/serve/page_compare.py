"""page_compare.py BROWSER URL FOLDER - two methods side by side: policies, forecasts, both answers, and the tokens
that each cache has lost."""

import json

from page_lib import begun, ended, start, text

QUESTION = (
    'the magic number for lantern 48 21 . '
    + 'the old sailor found the red kettle near the harbor . ' * 12
    + 'question : the magic number for lantern'
)

# Pairs of policies for the two sides. Each side's forecast must equal what it then holds.
PAIRS = [
    ('snapkv:budget=64', 'streaming:budget=48'),
    ('full', 'h2o:budget=40'),
    ('quest:budget=64', 'window:budget=100'),
    ('snapkv:budget=50%+morphkv:budget=70', 'take:budget=64,chunk=32'),
    ('tova:budget=33', 'pyramidkv:budget=64'),
]

INEXACT = ('snapkv:budget=50%+morphkv:budget=70', 'take:budget=64,chunk=32', 'pyramidkv:budget=64')


def field(side):
    return '#side-%s .spec' % side


def write(page, side, policy):
    """Types a policy."""
    page.run("document.querySelector('%s').select(); document.querySelector('%s').focus()" % (field(side), field(side)))
    page.type(policy)


def token(side, at):
    return '#side-%s .map span:nth-child(%d)' % (side, at + 1)


def forecast(page, index, policy):
    """Waits for the forecast of this policy for the current question, and returns it."""
    page.until("sides[%d].policy.said && sides[%d].policy.said.kv === %s" % (index, index, json.dumps(policy)))
    return page.run("sides[%d].policy.said" % index)


def beginning(cases, page):
    cases.that('the compare view', page.run("!byId('view-compare').hidden && byId('view-chat').hidden"))
    cases.that(
        'A is the server\'s policy', page.run("document.querySelector('%s').value" % field('a')) == 'snapkv:budget=64'
    )
    page.click('#example')
    cases.that('an example', 'harbour master' in page.run("byId('question').value"))
    page.run("byId('question').select()")
    page.type(QUESTION)
    page.run("byId('duel-most').value = 24; byId('duel-most').dispatchEvent(new Event('input'))")


def forecasts(cases, page):
    for pair in PAIRS:
        write(page, 'a', pair[0])
        write(page, 'b', pair[1])
        said = [forecast(page, 0, pair[0]), forecast(page, 1, pair[1])]
        page.run("byId('duel-send').focus()")
        page.key('Enter')
        ended(page)
        for index, policy in enumerate(pair):
            one, held = said[index], page.run("sides[%d].view.answer.bytes" % index)
            tokens = page.run("sides[%d].view.answer.pieces.length" % index)
            cases.that('an answer of the whole length: ' + policy, tokens == 24, tokens)
            cases.that(
                'the forecast of ' + policy,
                not one['exact']
                or (one['cache'], one['state'], one['full']) == (held['cache'], held['state'], held['full']),
                one,
                held,
            )
            cases.that('an exact forecast of ' + policy, one['exact'] or policy in INEXACT, one)
            figure = text(page, '#side-%s .held' % 'ab'[index])
            cases.that(
                'the forecast says the same',
                not one['exact'] or figure == text(page, '#side-%s .forecast b' % 'ab'[index]),
            )
            cases.that('the title of ' + policy, policy in text(page, '#title-%s' % 'ab'[index]))
    kvs = page.run("asked.map((one) => [one.kv || about.kv, one.cache_prompt, one.seed])")
    cases.that(
        'each side asks with its own policy', sorted(kvs) == sorted([p, False, 0] for pair in PAIRS for p in pair), kvs
    )


def wrong_policies(cases, page):
    for policy, words in (
        ('snapkw', 'snapkw'),
        ('snapkv:budget=16', 'budget'),
        ('snapkv:budget=64+', 'empty'),
        ('duo:file=/etc/passwd', 'file'),
    ):
        write(page, 'a', policy)
        page.until("document.querySelector('%s').getAttribute('aria-invalid') === 'true'" % field('a'))
        page.until("document.querySelector('#side-a .wrong-policy').textContent.length > 0")
        said = text(page, '#side-a .wrong-policy')
        cases.that('the server says what is wrong with ' + policy, len(said) > 10, said)
        write(page, 'a', 'full')
        page.until("document.querySelector('%s').getAttribute('aria-invalid') === 'false'" % field('a'))
    cases.that('the message is gone', text(page, '#side-a .wrong-policy') == '')
    write(page, 'a', 'no')
    page.click('#duel-send')
    ended(page)
    cases.that(
        'a refused side says so, and the other answers',
        'no' in text(page, '#side-a > .bad') and page.run("sides[1].view.answer.over"),
    )


def slider(cases, page):
    write(page, 'a', 'full')
    page.run(
        "document.querySelector('#side-a .method').value = 'snapkv';"
        "document.querySelector('#side-a .method').dispatchEvent(new Event('change'))"
    )
    cases.that('a method with a budget', page.run("sides[0].policy.value") == 'snapkv:budget=256')
    before = forecast(page, 0, 'snapkv:budget=256')
    page.run("document.querySelector('#side-a .slider').focus()")
    for _ in range(3):
        page.key('ArrowLeft')
    value = page.run("sides[0].policy.value")
    cases.that('the slider writes the budget', value == 'snapkv:budget=96', value)
    after = forecast(page, 0, value)
    cases.that('a smaller budget holds less', after['entries'] < before['entries'])
    cases.that(
        'the budget is said',
        page.run("document.querySelector('#side-a .slider').getAttribute('aria-valuetext')") == '96 entries',
    )
    page.until("document.querySelectorAll('#side-a .chart i.now').length === 1")
    heights = page.run(
        "[...document.querySelectorAll('#side-a .chart i:not(.refused)')].map((one) => parseFloat(one.style.height))"
    )
    cases.that(
        'a column for each budget, none lower than the one before',
        len(heights) > 8 and heights == sorted(heights),
        heights,
    )
    write(page, 'a', 'snapkv:budget=64+streaming:budget=64,sinks=2')
    page.run("document.querySelector('#side-a .slider').focus()")
    page.key('ArrowRight')
    cases.that(
        'equal budgets move together',
        page.run("sides[0].policy.value") == 'snapkv:budget=96+streaming:budget=96,sinks=2',
    )
    write(page, 'a', 'full')
    cases.that('a method without a budget has no slider', page.run("document.querySelector('#side-a .budget').hidden"))


def tokens(cases, page):
    """Selects tokens by mouse, keyboard and touch, and checks the description that the page shows."""
    write(page, 'a', 'snapkv:budget=64')
    write(page, 'b', 'streaming:budget=48')
    page.click('#duel-send')
    ended(page)
    layers = page.run('about.layers')
    at = page.run("sides[1].view.answer.lost.findIndex((one) => one > 0)")
    cases.that('some token is lost', at > 0)
    page.hover(token('b', at))
    said = text(page, '#side-b .look')
    cases.that('the mouse: when', 'lost at the end of the prompt' in said, said)
    cases.that('the mouse: where', 'Held in none of the %d layers' % layers in said, said)
    cases.that('a cell for each layer', page.run("document.querySelectorAll('#side-b .layers i').length") == layers)
    cases.that('struck out', page.run("getComputedStyle(document.querySelector('%s')).textDecorationLine" % token('b', at)) == 'line-through')
    cases.that(
        'the other side shows the same token', page.run("sides[0].view.at") == at and text(page, '#side-a .look') != ''
    )
    page.run("document.querySelector('#side-b .map').focus()")
    page.key('Home')
    cases.that(
        'the keyboard: the first token',
        page.run("sides[1].view.at") == 0 and 'every list holds it' in text(page, '#side-b .look'),
        text(page, '#side-b .look'),
    )
    page.key('ArrowRight')
    cases.that('one to the right', page.run("sides[1].view.at") == 1)
    page.key('ArrowDown')
    down = page.run("sides[1].view.at")
    cases.that(
        'one line down',
        down > 3 and page.run('''sides[1].view.spans[%d].getBoundingClientRect().top >
        sides[1].view.spans[1].getBoundingClientRect().top''' % down),
    )
    page.key('ArrowUp')
    cases.that('and up again', page.run("sides[1].view.at") <= 2, page.run("sides[1].view.at"))
    page.key('End')
    cases.that('the last token is not in the cache yet', 'not in the cache yet' in text(page, '#side-b .look'))
    cases.that(
        'the token is said to assistive software',
        page.run(
            '''(() => { const map = document.querySelector('#side-b .map');
        return document.getElementById(map.getAttribute('aria-activedescendant')).getAttribute('aria-selected'); })()'''
        )
        == 'true',
    )
    late = page.run('''(() => { const {lost, prompt} = sides[1].view.answer;
        return lost.findIndex((one) => one > prompt.length); })()''')
    page.hover(token('b', late))
    cases.that(
        'lost in the answer',
        late > 0 and 'lost in the answer, by its token' in text(page, '#side-b .look'),
        text(page, '#side-b .look'),
    )
    cases.that(
        'shades are what the server says',
        page.run('''sides.every((side) => side.view.answer.held.every((share, i) =>
        side.view.spans[i].dataset.held === String(Math.ceil(share / 10))))'''),
    )
    cases.that(
        'lost is what no list holds',
        page.run('''sides.every((side) => side.view.answer.lost.every((lost, i) =>
        (lost > 0) === (side.view.answer.held[i] === 0)))'''),
    )


def tab_to(page, selector):
    for _ in range(80):
        if page.run("document.activeElement.matches('%s')" % selector):
            return True
        page.key('Tab')
    return False


def only_keys(cases, page):
    """Goes from the chat to a lost token with the keyboard only."""
    page.run("scrollTo(0, 0); document.activeElement.blur()")
    cases.that('Tab: the view', tab_to(page, '#go-compare'))
    page.key('Enter')
    page.until("!byId('view-compare').hidden")
    cases.that('Tab: the question', tab_to(page, '#question'))
    page.type(QUESTION)
    cases.that('Tab: the slider of B', tab_to(page, '#side-b .slider'))
    page.key('Home')
    cases.that('the smallest budget', page.run("sides[1].policy.value") == 'streaming:budget=16')
    page.run("document.activeElement.blur(); byId('question').focus()")
    page.key('Enter', control=True)
    page.until('asked.length === 2')
    ended(page)
    cases.that('Tab: the map of B', tab_to(page, '#side-b .map'))
    page.key('Home')
    for _ in range(12):
        page.key('ArrowRight')
    cases.that('what is lost is said', 'token 13 of the prompt: lost at the end of the prompt' in text(page, '#side-b .look'))


def touched(cases, page):
    page.run("byId('question').value = %s; byId('duel-most').value = 12" % json.dumps(QUESTION))
    page.tap('#duel-send')
    page.until("asked.length === 2")
    ended(page)
    page.tap(token('a', 7))
    page.until("sides[0].view.at === 7")
    cases.that(
        'a finger on a token',
        page.run("sides[0].view.at") == 7 and 'token 8 of the prompt' in text(page, '#side-a .look'),
    )


def streamed(cases, page):
    """Both answers grow at the same time."""
    page.run(
        '''window.both = []; instead = async () => new Response(new ReadableStream({start: (to) => both.push(to)}));
        window.give = (i, text) => both[i].enqueue(new TextEncoder().encode(text))'''
    )
    page.click('#duel-send')
    page.until("both.length === 2")
    for i in (0, 1):
        page.run(
            "give(%d, 'data: ' + JSON.stringify({choices: [], prompt_progress: {total: 10, processed: 5}}) + '\\n\\n')"
            % i
        )
    page.until("document.querySelectorAll('#view-compare .reads progress[value]').length === 2")
    cases.that(
        'both show progress', '5 of 10' in text(page, '#side-a .reads') and '5 of 10' in text(page, '#side-b .reads')
    )
    page.run("give(1, chunk({content: 'second'})); give(0, chunk({content: 'first'}))")
    page.until("sides[0].said.innerText === 'first' && sides[1].said.innerText === 'second'")
    page.click('#duel-stop' if not page.run("byId('duel-stop').hidden") else '#duel-send')
    page.run("both.forEach((one) => one.error(new DOMException('', 'AbortError')))")
    ended(page)
    cases.that(
        'stopped: what came stays',
        page.run("sides[0].said.innerText") == 'first' and text(page, '#side-a > .bad') == '',
    )
    page.run('instead = null')


def run(cases, open_page, url, folder):
    page = open_page(url + '#compare')
    begun(page)
    for part in (beginning, forecasts, slider, tokens, streamed):
        part(cases, page)
    cases.that('the browser complains of nothing', (said := page.complaints()) == [], said)
    wrong_policies(cases, page)
    said = [one for one in page.complaints() if 'status of 400' not in one]
    cases.that('the browser complains of nothing else', said == [], said)
    keys = open_page(url)
    begun(keys)
    only_keys(cases, keys)
    phone = open_page(url + '#compare', 390, 844, touch=True)
    begun(phone)
    touched(cases, phone)


start(run)
