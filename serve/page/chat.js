/* chat.js - the view for one conversation: its turns, which can be edited and answered anew, and the list of chats. */

let chat = newChat();
let busy = null; /* the AbortController of the answer that is arriving */
let policyForm = null, chatCache = null;

const wrong = (text) => { byId('wrong').textContent = text; };

/* ---- turns ---- */

/* Returns an answer's policy, seed and note as one line. */
function turnFacts(message) {
    const facts = [message.kv, message.seed === undefined ? '' : 'seed ' + message.seed, message.note];
    return make('span', {className: 'facts-line'}, facts.filter(Boolean).join(' · '));
}

function thinkingBlock(text) {
    return make('details', {className: 'thinking'}, make('summary', {}, 'Thinking'), make('div', {}, text));
}

function showTurn(message, index) {
    const said = make('div', {className: 'said'}), under = make('div', {className: 'under'});
    const turn = make(
        'article', {className: 'turn ' + message.role, 'aria-label': message.role === 'user' ? 'You' : 'Answer'}, said,
        under);
    if (message.role === 'user') {
        said.textContent = message.content;
        under.append(button('Edit this message', 'Edit', () => editTurn(turn, index)));
    } else {
        if (message.reasoning) said.append(thinkingBlock(message.reasoning));
        const text = make('div', {className: 'text'});
        said.append(text);
        showMarkdown(text, message.content);
        const copies = button('Copy this answer', 'Copy', () => copy(message.content, copies));
        under.append(turnFacts(message), copies);
        if (index === chat.messages.length - 1)
            under.append(button('Draw another answer, with a new seed', 'Regenerate', () => regenerate()));
    }
    byId('talk').append(turn);
    return turn;
}

function showChat() {
    byId('talk').replaceChildren();
    chat.messages.forEach(showTurn);
    byId('system').value = chat.system;
    chatCache.clear();
    listChats();
}

/* ---- asking ---- */

function questionOf(messages) {
    const system = byId('system').value.trim() ? [{role: 'system', content: byId('system').value}] : [];
    return system.concat(messages.map(
        ({role, content, reasoning}) => reasoning ? {role, content, reasoning_content: reasoning} : {role, content}));
}

const most = () => Math.max(1, Math.floor(+byId('most').value) || 1);

/* Shows an answer that is arriving, as a turn that showTurns replaces when the answer is complete. Returns a function
 * that updates the turn. */
function arrivingTurn(answer) {
    const said = make('div', {className: 'said'});
    const turn = make('article', {className: 'turn assistant', 'aria-label': 'Answer'}, said);
    const text = make('div', {className: 'text'}), end = byId('end');
    let thinking = null;
    byId('talk').append(turn);
    const show = () => {
        const follow = inSight(end);
        if (!answer.content && !answer.reasoning) {
            said.replaceChildren(progressSign(answer));
        } else {
            if (!text.isConnected) said.replaceChildren(text);
            if (answer.reasoning && !thinking) said.prepend(thinking = thinkingBlock(''));
            if (thinking) thinking.lastChild.textContent = answer.reasoning;
            showMarkdown(text, answer.content, false);
        }
        if (follow) end.scrollIntoView({block: 'end'});
    };
    return show;
}

function setBusy(controller) {
    busy = controller;
    byId('send').hidden = Boolean(busy);
    byId('stop').hidden = !busy;
    byId('talk').setAttribute('aria-busy', String(Boolean(busy)));
}

/* Moves the focus back to the message field, unless the user has moved the focus elsewhere, such as to a token. */
function focusAsk() {
    const at = document.activeElement;
    if (at === document.body || byId('form').contains(at)) byId('ask').focus({preventScroll: true});
}

/* Asks for an answer to the chat's messages. Returns false if no answer came. */
async function answerChat(seed) {
    const mine = chat, kv = policyForm.value, answer = newAnswer();
    const show = arrivingTurn(answer);
    const stop = new AbortController();
    const here = () => chat === mine;
    setBusy(stop);
    wrong('');
    show();
    byId('end').scrollIntoView({block: 'end'});
    try {
        await converse(
            {
                messages: questionOf(mine.messages),
                ...policyField(kv),
                seed,
                max_tokens: most(),
                temperature: +byId('heat').value,
                cache_prompt: true
            },
            answer, stop.signal, () => {
                if (!here()) return;
                show();
                chatCache.show(answer);
            });
    } catch (error) {
        if (error.name !== 'AbortError' && here()) wrong(error.message);
    }
    stop.abort();
    if (busy === stop) setBusy(null);
    policyForm.forecastLater();
    if (!answer.over && !answer.content && !answer.reasoning) return false;
    const fast = speed(answer);
    const note =
        (answer.bytes ? `${byteSize(answer.bytes.cache + answer.bytes.state)} of ${byteSize(answer.bytes.full)}` : '') +
        (fast ? ` · ${fast.toFixed(1)} tokens per second` : '') + (answer.over ? '' : ' · stopped');
    mine.messages.push(
        {role: 'assistant', content: answer.content, reasoning: answer.reasoning || undefined, kv, seed, note});
    keep(mine);
    return true;
}

function keep(one) {
    if (!keepChat(one)) byId('deleted').textContent = 'The browser has no room for this chat: a reload loses it.';
    listChats();
}

const drawnSeed = () => byId('seed').value === '' ? newSeed() : Math.max(0, Math.floor(+byId('seed').value));

/* Shows the turns of the chat again, without clearing the cache view. */
function showTurns() {
    const end = byId('end'), follow = inSight(end);
    byId('talk').replaceChildren();
    chat.messages.forEach(showTurn);
    if (follow) end.scrollIntoView({block: 'end'});
}

async function ask(text) {
    const mine = chat;
    mine.messages.push({role: 'user', content: text});
    history.replaceState(null, '', '#chat/' + mine.id);
    keep(mine);
    showTurns();
    if (!await answerChat(drawnSeed())) {
        /* No answer came: the text goes back to the message field, so that it can be sent again. */
        mine.messages.pop();
        if (mine.messages.length) keep(mine);
        else dropChat(mine);
        listChats();
        if (chat === mine) byId('ask').value = text + (byId('ask').value && '\n' + byId('ask').value);
    }
    if (chat === mine) showTurns();
}

async function regenerate() {
    if (busy) return;
    const mine = chat, last = mine.messages.pop();
    showTurns();
    if (!await answerChat(newSeed())) mine.messages.push(last);
    if (chat === mine) showTurns();
    focusAsk();
}

/* ---- editing ---- */

function editTurn(turn, index) {
    if (busy) return;
    const area = make('textarea', {value: chat.messages[index].content, rows: 3, 'aria-label': 'The message'});
    const back = () => {
        showTurns();
        const edits = byId('talk').children[index];
        if (edits) edits.querySelector('button').focus();
    };
    const send = () => {
        if (area.value.trim() && !busy) sendEdited(index, area.value);
    };
    area.addEventListener('keydown', (event) => {
        if (event.key === 'Escape') back();
        if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
            event.preventDefault();
            send();
        }
    });
    turn.replaceChildren(make(
        'div', {className: 'edit'}, area,
        make('div', {className: 'row'}, button('Send', 'Send', send, ''), button('Cancel', 'Cancel', back, 'plain'))));
    area.focus();
}

/* Continues from an edited message. If an answer comes, the later messages are dropped. */
async function sendEdited(index, text) {
    const mine = chat, before = mine.messages.slice();
    mine.messages.length = index;
    mine.messages.push({role: 'user', content: text});
    showTurns();
    if (!await answerChat(drawnSeed())) {
        mine.messages.splice(0, mine.messages.length, ...before);
        keep(mine);
        if (chat === mine) byId('ask').value = text;
    }
    if (chat === mine) showTurns();
    focusAsk();
}

/* ---- the list of chats ---- */

function openChat(one) {
    if (busy) busy.abort();
    setBusy(null);
    chat = one;
    wrong('');
    history.replaceState(null, '', '#chat/' + one.id);
    /* The user can resend a message that has no answer, for example because the page was closed during the answer. */
    if (one.messages.at(-1)?.role === 'user') byId('ask').value = one.messages.pop().content;
    showChat();
    policyForm.forecastLater();
}

function listChats() {
    const chats = keptChats();
    byId('chat-list').replaceChildren(...chats.map((one) => {
        const title = chatTitle(one);
        const opens = make('button', {type: 'button', className: 'open', title, onclick: () => openChat(one)}, title);
        if (one.id === chat.id) opens.setAttribute('aria-current', 'true');
        return make('li', {}, opens, button('Delete the chat ' + title, '×', () => removeChat(one), 'delete'));
    }));
}

/* Deletes a chat at once, and offers to restore it. */
function removeChat(one) {
    dropChat(one);
    if (one.id === chat.id) openChat(newChat());
    else listChats();
    byId('deleted').replaceChildren('Chat deleted. ', button('Undo: bring the deleted chat back', 'Undo', () => {
                                        keepChat(one);
                                        byId('deleted').textContent = '';
                                        openChat(one);
                                    }));
    byId('anew').focus();
}

/* ---- the view ---- */

function submitQuestion(event) {
    event.preventDefault();
    const field = byId('ask'), text = field.value;
    if (!text.trim() || busy) return;
    field.value = '';
    ask(text).then(focusAsk);
}

function beginChat() {
    chatCache = new CacheView(byId('chat-cache'));
    policyForm = new PolicyForm(
        byId('chat-policy'), about.kv,
        () => ({
            messages: questionOf(chat.messages.concat({role: 'user', content: byId('ask').value || ' '})),
            max_tokens: most()
        }));
    byId('form').addEventListener('submit', submitQuestion);
    byId('ask').addEventListener('keydown', (event) => {
        if (event.key === 'Escape' && busy) busy.abort();
        if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
        event.preventDefault();
        byId('form').requestSubmit();
    });
    byId('stop').addEventListener('click', () => busy && busy.abort());
    byId('anew').addEventListener('click', () => {
        openChat(newChat());
        byId('ask').focus();
    });
    byId('system').addEventListener('input', () => {
        chat.system = byId('system').value;
        if (chat.messages.length) keepChat(chat);
    });
    for (const id of ['ask', 'system', 'most']) byId(id).addEventListener('input', () => policyForm.forecastLater());
    window.addEventListener('storage', listChats);
}
