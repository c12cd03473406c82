/* page_check.js - put into a copy of the page by test_page.sh: talks with the model as a user would, by the keyboard, and
 * says whether the page shows what it should. */
(async function () {
    'use strict';
    const found = [];
    const say = (text) => fetch('/said', {method: 'POST', body: location.search.slice(1) + ' ' + text});
    const get = (id) => document.getElementById(id);
    const until = async (condition) => {
        for (let i = 0; i < 3000; i++) {
            if (condition()) return true;
            await new Promise((done) => setTimeout(done, 10));
        }
        return false;
    };
    const talk = async (text) => {
        get('ask').value = text;
        get('ask').dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', bubbles: true, cancelable: true}));
        if (!await until(() => !get('send').disabled && !get('ask').value)) found.push('no end of an answer');
    };
    try {
        if (!await until(() => get('method').options.length > 10)) found.push('no methods');
        if (get('model').textContent !== 'demo') found.push('the model is ' + get('model').textContent);
        get('method').value = 'streaming';
        get('method').dispatchEvent(new Event('change'));
        get('budget').value = '24';
        get('heat').value = '0';
        get('most').value = '40';
        await talk('the magic number for lantern 48 21 . the old sailor found the red kettle near the harbor .');
        await talk('question : the magic number for lantern');
        if (get('wrong').textContent) found.push('it says ' + get('wrong').textContent);
        if (document.querySelectorAll('.said').length !== 4) found.push('not four texts');
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
