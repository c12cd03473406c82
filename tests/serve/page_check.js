/* page_check.js - put into a copy of the page by test_page.sh: talks with the model as a user would, by the keyboard, and
 * says whether the page shows what it should. */
(async function () {
    'use strict';
    const found = [], real = window.fetch;
    const say = (text) => real('/said', {method: 'POST', body: location.search.slice(1) + ' ' + text});
    const get = (id) => document.getElementById(id);
    const until = async (condition) => {
        for (let i = 0; i < 3000; i++) {
            if (condition()) return true;
            await new Promise((done) => setTimeout(done, 10));
        }
        return false;
    };
    const send = (text) => {
        get('ask').value = text;
        get('ask').dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', bubbles: true, cancelable: true}));
    };
    const ended = async () => {
        if (!await until(() => !get('send').disabled)) found.push('no end of an answer');
    };
    const talk = async (text) => {
        send(text);
        await ended();
    };
    const said = () => [...document.querySelectorAll('.said')];
    /* What the page asks for, and answers of ours in place of the server's. */
    const asked = [];
    let instead = null;
    window.fetch = (path, options) => {
        if (!options || options.method !== 'POST') return real(path, options);
        asked.push(JSON.parse(options.body));
        return instead ? instead() : real(path, options);
    };
    const chunk = (text) => 'data: ' + JSON.stringify({choices: [{delta: {content: text}}]}) + '\n\n';
    /* An answer that gives what is put into it, until it is closed or fails. */
    const stream = () => {
        let to;
        const body = new ReadableStream({start: (controller) => { to = controller; }});
        instead = async () => new Response(body);
        return {put: (text) => to.enqueue(new TextEncoder().encode(text)), close: () => to.close(),
                fail: () => to.error(new TypeError('network error'))};
    };
    const visible = (e) => e.getBoundingClientRect().bottom > 0 && e.getBoundingClientRect().bottom <= innerHeight;

    const failures = async () => {
        const before = said().length, lost = 'a text that is lost';
        const refusal = {error: {message: 'no room', type: 'server_error'}};
        for (const [answer, words] of [[async () => { throw new TypeError('Failed to fetch'); }, 'does not answer'],
                                       [async () => new Response(JSON.stringify(refusal), {status: 503}), 'no room'],
                                       [async () => new Response('data: ' + JSON.stringify(refusal) + '\n\n'), 'no room'],
                                       [async () => new Response(''), 'ended early']]) {
            instead = answer;
            await talk(lost);
            if (!get('wrong').textContent.includes(words)) found.push('it says ' + get('wrong').textContent);
            if (!visible(get('wrong'))) found.push('an error out of sight');
            if (get('ask').value !== lost) found.push('after an error the text is ' + get('ask').value);
            if (said().length !== before) found.push('a turn without an answer stays');
        }
        const cut = stream();
        send('a text half answered');
        cut.put(chunk('half'));
        if (!await until(() => said()[before + 1].textContent === 'half')) found.push('no half answer');
        cut.fail();
        await ended();
        if (said().length !== before + 2 || get('ask').value) found.push('half an answer is not kept');
        instead = null;
        await talk('once more');
        const roles = asked[asked.length - 1].messages.map((message) => message.role);
        if (roles.some((role, i) => role !== (i % 2 ? 'assistant' : 'user'))) found.push('roles: ' + roles);
        if (get('wrong').textContent) found.push('the error stays');
    };

    const sight = async () => {
        const slow = stream();
        send('a long answer');
        const answer = said().pop(), sign = () => getComputedStyle(answer, '::before').content;
        const moves = () => getComputedStyle(answer, '::after').animationName === 'beat';
        if (!/Reading the prompt: 0 s/.test(sign()) || !moves()) found.push('nothing moves: ' + sign());
        if (!await until(() => /: 1 s/.test(sign()))) found.push('the seconds stand still');
        if (!visible(answer)) found.push('the answer is out of sight before it comes');
        for (let i = 0; i < 80; i++) {
            slow.put(chunk('line ' + i + '\n'));
            if (!await until(() => answer.textContent.endsWith(i + '\n'))) found.push('no line ' + i);
            if (!visible(answer) || !visible(get('form'))) found.push('out of sight at line ' + i);
            if (found.length) break;
        }
        if (moves() || sign() !== 'none') found.push('the sign stays');
        scrollTo(0, 0);
        slow.put(chunk('more\n'.repeat(20)) + 'data: [DONE]\n\n');
        slow.close();
        await ended();
        if (scrollY !== 0) found.push('it scrolls away from its reader');
        instead = null;
    };
    try {
        if (!await until(() => get('method').options.length > 10)) found.push('no methods');
        if (get('model').textContent !== 'demo') found.push('the model is ' + get('model').textContent);
        const first = get('method').selectedOptions[0];
        if (first.value !== 'snapkv:budget=64' || !first.textContent.includes(first.value) || !get('budget').disabled)
            found.push('the default is ' + first.textContent);
        get('heat').value = '1';
        get('most').value = '8';
        await talk('the old sailor');
        get('anew').click();
        await talk('the old sailor');
        get('anew').click();
        if (asked.some((body) => body.kv !== 'snapkv:budget=64' || body.cache_prompt !== true))
            found.push('asked for ' + JSON.stringify(asked));
        if (asked[0].seed === asked[1].seed) found.push('the same seed twice');
        await failures();
        await sight();
        get('anew').click();
        get('method').value = 'streaming';
        get('method').dispatchEvent(new Event('change'));
        get('budget').value = '24';
        get('heat').value = '0';
        get('most').value = '40';
        await talk('the magic number for lantern 48 21 . the old sailor found the red kettle near the harbor .');
        await talk('question : the magic number for lantern');
        if (get('wrong').textContent) found.push('it says ' + get('wrong').textContent);
        if (document.querySelectorAll('.said').length !== 4) found.push('not four texts');
        const last = asked.pop();
        if (last.kv !== 'streaming:budget=24') found.push('asked for ' + last.kv);
        const spans = [...document.querySelectorAll('#text span')];
        const gone = spans.filter((s) => s.className === 'gone').length;
        if (spans.length < 40) found.push('tokens: ' + spans.length);
        if (gone < 10 || gone > spans.length - 20) found.push('gone: ' + gone + ' of ' + spans.length);
        if (!/KiB/.test(get('held').textContent) || !/KiB/.test(get('full').textContent))
            found.push('bytes: ' + get('held').textContent + ' of ' + get('full').textContent);
        if (!/^[0-9]/.test(get('speed').textContent)) found.push('tokens per second: ' + get('speed').textContent);
        const wide = document.documentElement.clientWidth;
        if (document.documentElement.scrollWidth > wide)
            found.push('the page is ' + document.documentElement.scrollWidth + ' wide, not ' + wide);
        for (const e of document.querySelectorAll('input, select, textarea')) {
            if (!e.labels.length && !e.getAttribute('aria-label')) found.push('no label: ' + e.id);
            if (!e.closest('[hidden]') && e.getBoundingClientRect().height < 38) found.push('small: ' + e.id);
        }
    } catch (e) {
        found.push(String(e));
    }
    await say(found.length ? found.join('; ') : 'FINE');
})();
