"""page_chat.py BROWSER URL FOLDER LOCKED - conversations on the page, with a user's keys and clicks."""

import json
import sys

from page_lib import begun, ended, say, start, talk, text

MESSAGE = 'the old sailor found the red kettle near the harbor . the magic number for lantern 48 21 .'


def roles(page):
    return page.run("[...document.querySelectorAll('.turn')].map((turn) => turn.classList[1])")


def said(page):
    return page.run("[...document.querySelectorAll('.turn .said')].map((said) => said.innerText.trim())")


def click(page, label, last=True):
    """Clicks the last button with this text or, if `last` is false, the first one."""
    page.run(
        '''window.chosen && chosen.removeAttribute('data-chosen');
        window.chosen = [...document.querySelectorAll('button')]
        .filter((one) => one.textContent === %s && one.getClientRects().length).at(%d)'''
        % (json.dumps(label), -1 if last else 0)
    )
    page.run("chosen.dataset.chosen = 'yes'")
    page.click('[data-chosen]')


def beginning(cases, page):
    cases.that('the model', text(page, '#model') == 'demo')
    cases.that('all methods', page.run("document.querySelectorAll('#chat-policy option').length") > 30)
    cases.that(
        'the policy is the server\'s', page.run("policyForm.value") == 'snapkv:budget=64+streaming:budget=96,sinks=2'
    )
    cases.that(
        'methods are explained',
        "the prompt's last queries" in text(page, '#chat-policy .methods')
        and 'the first entries' in text(page, '#chat-policy .methods'),
        text(page, '#chat-policy .methods'),
    )
    cases.that('the field for messages has the focus', page.run("document.activeElement.id") == 'ask')


def conversation(cases, page):
    page.run("byId('most').value = 24; byId('heat').value = 1")
    talk(page, MESSAGE)
    cases.that('a question and an answer', roles(page) == ['user', 'assistant'], roles(page))
    first = page.run("asked[0]")
    cases.that('the server\'s own policy needs no field', 'kv' not in first and 'snapkv:budget=64+' in text(page, '.under span'))
    cases.that('the seed is shown', 'seed %d' % first['seed'] in text(page, '.turn.assistant .under'))
    cases.that(
        'the prompt\'s progress has been reported',
        page.run(
            "seen.map((event) => event.prompt_progress).some((one) => one && one.processed === one.total)"
        ),
    )
    cases.that('tokens are shaded', page.run("chatCache.spans.length") > 30)
    cases.that('bytes are shown', 'KiB' in text(page, '#chat-cache .held'))
    before = said(page)
    click(page, 'Regenerate')
    ended(page)
    second = page.run("asked[1]")
    cases.that('another seed', second['seed'] != first['seed'] and second['messages'] == first['messages'])
    cases.that('the new seed is shown', 'seed %d' % second['seed'] in text(page, '.turn.assistant .under'))
    cases.that('another answer to the same question', said(page)[0] == before[0] and said(page)[1] != before[1])
    talk(page, 'question : the magic number for lantern')
    cases.that('four turns', roles(page) == ['user', 'assistant'] * 2)
    cases.that(
        'the third request has the conversation',
        [m['role'] for m in page.run("asked[2].messages")] == ['user', 'assistant', 'user'],
    )
    cases.that(
        'only the last answer can be drawn again',
        page.run("[...document.querySelectorAll('button')].filter((one) => one.textContent === 'Regenerate').length")
        == 1,
    )


def kept(cases, page):
    before = said(page)
    page.reload()
    begun(page)
    cases.that('a reload keeps the chat', said(page) == before)
    cases.that('it is the one in the list', 'the old sailor' in text(page, '#chat-list [aria-current]'))


def edited(cases, page):
    before = said(page)
    click(page, 'Edit', last=False)
    page.type(' and more')
    page.key('Escape')
    cases.that('an edit that is given up', said(page) == before)
    cases.that('the focus is back at it', page.run("document.activeElement.textContent") == 'Edit')
    click(page, 'Edit', last=False)
    page.run("document.activeElement.select()")
    page.type('the green parrot')
    page.run("byId('most').value = 12")
    page.key('Enter')
    ended(page)
    cases.that(
        'goes on from the edited message', roles(page) == ['user', 'assistant'] and said(page)[0] == 'the green parrot'
    )
    cases.that(
        'asked with it alone', page.run("asked.at(-1).messages") == [{'role': 'user', 'content': 'the green parrot'}]
    )


def several(cases, page):
    page.click('#anew')
    cases.that('a new chat is empty', roles(page) == [])
    page.run("byId('system').closest('details').open = true; byId('system').focus()")
    page.type('the village is quiet .')
    talk(page, 'the second chat')
    cases.that(
        'the system prompt is sent',
        page.run("asked.at(-1).messages[0]") == {'role': 'system', 'content': 'the village is quiet .'},
    )
    cases.that('two chats', page.run("document.querySelectorAll('#chat-list li').length") == 2)
    page.reload()
    begun(page)
    cases.that('the system prompt survives', page.run("byId('system').value") == 'the village is quiet .')
    page.click('#chat-list li:nth-child(2) .open')
    cases.that(
        'the other chat has none', page.run("byId('system').value") == '' and said(page)[0] == 'the green parrot'
    )
    page.click('#chat-list li:nth-child(2) .delete')
    cases.that(
        'a deleted chat is gone',
        page.run("document.querySelectorAll('#chat-list li').length") == 1 and roles(page) == [],
    )
    click(page, 'Undo')
    cases.that('it comes back', said(page)[0] == 'the green parrot')
    page.run(
        "localStorage.setItem('kvcull.chat.x', '{\"id\":\"x\",\"messages\":[{\"role\":\"root\"}]}');"
        "localStorage.setItem('kvcull.chat.y', 'no JSON')"
    )
    page.reload()
    begun(page)
    cases.that('what is no chat is left alone', page.run("document.querySelectorAll('#chat-list li').length") == 2)


def elsewhere(cases, page):
    """A question is sent with the policy that was typed, and the focus stays where the user has put it."""
    page.run("document.querySelector('#chat-policy .spec').select()")
    page.type('streaming:budget=40,sinks=2')
    page.run("window.talks = stream()")
    say(page, 'a question')
    page.until("!byId('stop').hidden")
    cases.that('asked with the policy', page.run("asked.at(-1).kv") == 'streaming:budget=40,sinks=2')
    page.run("document.querySelector('#chat-policy .slider').focus()")
    page.run("talks.put(chunk({content: 'x'})); talks.end()")
    ended(page)
    cases.that('the focus stays', page.run("document.activeElement.className") == 'slider')
    page.run("window.talks = stream()")
    say(page, 'another')
    page.until("!byId('stop').hidden")
    page.run("byId('ask').focus()")
    page.key('Escape')
    ended(page)
    cases.that('Escape stops', page.run("byId('ask').value") == 'another')
    page.run("policyForm.set(about.kv)")


def failures(cases, page):
    page.click('#anew')
    lost = 'a text that is lost'
    refusal = "new Response(JSON.stringify({error: {message: 'no room'}}), {status: 503})"
    for answer, words in (
        ("throw new TypeError('Failed to fetch')", 'does not answer'),
        ('return ' + refusal, 'no room'),
        ("return new Response('data: {\"error\":{\"message\":\"no room\"}}\\n\\n')", 'no room'),
        ("return new Response('<html>', {status: 502})", 'HTTP 502'),
        ("return new Response('')", 'ended early'),
    ):
        page.run("byId('ask').value = ''; instead = async () => { %s }" % answer)
        talk(page, lost)
        cases.that(
            'it says ' + words,
            words in text(page, '#wrong') and page.run("visible(byId('wrong'))"),
            text(page, '#wrong'),
        )
        cases.that('the text is back', page.run("byId('ask').value") == lost)
        cases.that('no turn without an answer', roles(page) == [])
    page.run("byId('ask').value = ''; window.cut = stream()")
    say(page, 'a text half answered')
    page.run("cut.put(chunk({content: 'half'}))")
    page.until(
        "[...document.querySelectorAll('.turn.assistant')].some((turn) => turn.innerText.includes('half'))"
    )
    page.run("cut.fail()")
    ended(page)
    cases.that('half an answer is kept', roles(page) == ['user', 'assistant'] and page.run("byId('ask').value") == '')
    cases.that('and the error is shown', 'broke' in text(page, '#wrong'), text(page, '#wrong'))
    page.run("instead = async () => { throw new TypeError('Failed to fetch') }")
    click(page, 'Edit')
    page.type(' again')
    page.key('Enter')
    ended(page)
    cases.that(
        'a failed edit loses nothing',
        roles(page) == ['user', 'assistant'] and said(page)[1].startswith('half'),
        said(page),
    )
    page.run("byId('ask').value = ''; window.slow = stream()")
    say(page, 'to be stopped')
    page.until("!byId('stop').hidden")
    page.click('#stop')
    ended(page)
    cases.that('stopped before it began: the text is back', page.run("byId('ask').value") == 'to be stopped')
    page.run("byId('ask').value = ''; instead = null")
    talk(page, 'once more')
    cases.that(
        'roles alternate', [m['role'] for m in page.run("asked.at(-1).messages")] == ['user', 'assistant', 'user']
    )
    cases.that('the error is gone', text(page, '#wrong') == '')


def sight(cases, page):
    page.run("window.slow = stream()")
    say(page, 'a long answer')
    page.until("document.querySelector('.reads')")
    cases.that('the wait is shown', text(page, '.reads').startswith('Waiting'))
    page.run(
        "slow.put('data: ' + JSON.stringify({choices: [], prompt_progress: {total: 4096, processed: 1024}}) + '\\n\\n')"
    )
    page.until("document.querySelector('.reads').textContent.includes('1,024 of 4,096')")
    cases.that('the progress is a share', page.run("document.querySelector('progress').position") == 0.25)
    cases.that('the answer is in sight before it comes', page.run("visible(document.querySelector('.reads'))"))
    for i in range(80):
        page.run("slow.put(chunk({content: 'line %d\\n\\n'}))" % i)
        page.until("byId('talk').lastChild.innerText.includes('line %d')" % i)
        if not page.run("visible(byId('talk').lastChild.querySelector('p:last-child')) && visible(byId('form'))"):
            cases.that('in sight at line %d' % i, False)
            break
    page.run("document.querySelector('.scroll').scrollTop = 0; scrollTo(0, 0)")
    page.run("slow.put(chunk({content: 'more\\n\\n'.repeat(20)}))")
    page.until("byId('talk').lastChild.innerText.includes('more')")
    page.run("slow.end()")
    ended(page)
    cases.that(
        'it does not scroll away from its reader',
        page.run("scrollY + document.querySelector('.scroll').scrollTop") == 0,
    )
    page.run("window.slow = stream()")
    say(page, 'think')
    page.until("!byId('stop').hidden")
    page.run("slow.put(chunk({reasoning_content: 'a thought'}) + chunk({content: 'an answer'})); slow.end()")
    ended(page)
    cases.that(
        'thinking is folded',
        page.run("document.querySelector('.turn:last-child .thinking').open") is False
        and 'a thought' in text(page, '.turn:last-child .thinking'),
    )
    page.run("instead = null")


def locked(cases, page):
    """If the server needs a key, the page asks for one and uses it."""
    page.until("!byId('lock').hidden")
    cases.that('a key is asked for', page.run("document.activeElement.id") == 'key' and text(page, '#wrong') != '')
    page.type('wrong')
    page.key('Enter')
    page.until("!document.documentElement.dataset.ready && byId('wrong').textContent.length > 0")
    page.run("byId('key').select()")
    page.type('right')
    page.key('Enter')
    begun(page)
    cases.that('the key is accepted', page.run("byId('lock').hidden") and text(page, '#wrong') == '')
    page.run("byId('most').value = 8")
    talk(page, MESSAGE)
    cases.that('an answer with the key', roles(page) == ['user', 'assistant'], roles(page))
    cases.that('a policy that reads a file, the server\'s own', text(page, '.under span').startswith('duo:file='))
    page.until("document.querySelector('#chat-policy .forecast').textContent")
    cases.that('its forecast', 'Will hold' in text(page, '#chat-policy .forecast'), text(page, '#chat-policy .forecast'))
    cases.that('the key is not kept', page.run("JSON.stringify({...localStorage, ...sessionStorage}).includes('right')") is False)


def run(cases, open_page, url, folder):
    page = open_page(url)
    begun(page)
    for part in (beginning, conversation, kept, edited, several):
        part(cases, page)
    cases.that('the browser complains of nothing', (said_ := page.complaints()) == [], said_)
    elsewhere(cases, page)
    failures(cases, page)
    sight(cases, page)
    cases.that('the browser complains of nothing else', (said_ := page.complaints()) == [], said_)
    locked(cases, open_page(sys.argv[4]))
    narrow = open_page(url, 390, 844, touch=True)
    begun(narrow)
    narrow.click('#anew') if narrow.run("byId('chats').open") else None
    sight(cases, narrow)


start(run)
