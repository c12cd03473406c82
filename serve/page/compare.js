/* compare.js - the view of two methods side by side: one question, two policies, both answers and both caches. */

const EXAMPLE = `The ferry to the outer islands leaves from the second pier when the tide is high, and takes two \
hours. In winter the ferry does not run on Sundays, and the mail is brought by a small plane. The lighthouse was \
built in 1871 and is painted red and white. Fishermen sell what they have caught on the first pier before eight. The \
name of the harbour master is Ada Lindqvist. There are three inns, and the oldest one has a room with a view of the \
whole bay. The school has forty pupils, who come by boat from six villages, and its roof was blown away in the storm \
of 1953. Two bakers share one oven by the church, one of them from four in the morning on and the other in the \
afternoon. On the hill above the town stands a windmill that has ground no corn for eighty years, and in which a \
painter lives from May to September. The road to the north ends at a bridge that was never finished.

What is the name of the harbour master?`;

let duel = null; /* the AbortController of the two answers that are arriving */
const sides = [];

function duelQuestion() {
    const system = byId('duel-system').value, text = byId('question').value || ' ';
    const messages = [{role: 'user', content: text}];
    if (system.trim()) messages.unshift({role: 'system', content: system});
    return {messages, max_tokens: Math.max(1, Math.floor(+byId('duel-most').value) || 1)};
}

function makeSide(id, spec) {
    const box = byId('side-' + id), title = byId('title-' + id).querySelector('span');
    const form = make('div'),
          said = make('div', {className: 'duel-said said', role: 'log', 'aria-label': 'Answer ' + id.toUpperCase()});
    const failed = make('p', {className: 'bad', role: 'alert'}), cache = make('div');
    box.append(form, said, failed, cache);
    const side = {said, failed, view: new CacheView(cache), policy: new PolicyForm(form, spec, duelQuestion)};
    const name = () => { title.textContent = side.policy.value; };
    side.policy.onchange = name;
    name();
    return side;
}

/* Asks one side. If an error occurs, shows it there; the other side continues. */
async function askSide(side, question, signal) {
    const answer = newAnswer(), text = make('div', {className: 'text'});
    const show = () => {
        if (answer.content || answer.reasoning || answer.over) {
            if (!text.isConnected) side.said.replaceChildren(text);
            showMarkdown(text, answer.content || answer.reasoning, answer.over);
        } else {
            side.said.replaceChildren(progressSign(answer));
        }
        side.view.show(answer);
    };
    side.failed.textContent = '';
    show();
    try {
        await converse({...question, ...policyField(side.policy.value), cache_prompt: false}, answer, signal, show);
    } catch (error) {
        if (error.name !== 'AbortError') side.failed.textContent = error.message;
        if (!answer.content) side.said.replaceChildren();
    }
}

async function askBoth(event) {
    event.preventDefault();
    if (duel || !byId('question').value.trim()) return;
    duel = new AbortController();
    byId('duel-send').hidden = true;
    byId('duel-stop').hidden = false;
    const question = {
        ...duelQuestion(),
        temperature: +byId('duel-heat').value,
        seed: Math.max(0, Math.floor(+byId('duel-seed').value) || 0)
    };
    await Promise.all(sides.map((side) => askSide(side, question, duel.signal)));
    duel = null;
    byId('duel-send').hidden = false;
    byId('duel-stop').hidden = true;
}

function beginCompare() {
    /* The default policies: the server's own, and a simple one with the same budget. */
    const own = about.kv, budget = parsePolicy(own)[0].budget || 128;
    sides.push(
        makeSide('a', own),
        makeSide('b', parsePolicy(own)[0].name === 'streaming' ? 'full' : 'streaming:budget=' + budget));
    sides[0].view.other = sides[1].view;
    sides[1].view.other = sides[0].view;
    byId('view-compare').addEventListener('submit', askBoth);
    byId('duel-stop').addEventListener('click', () => duel && duel.abort());
    const forecast = () => sides.forEach((side) => side.policy.forecastLater());
    byId('example').addEventListener('click', () => {
        byId('question').value = EXAMPLE;
        forecast();
        byId('duel-send').focus();
    });
    for (const id of ['question', 'duel-system', 'duel-most']) byId(id).addEventListener('input', forecast);
    byId('question').addEventListener('keydown', (event) => {
        if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return;
        event.preventDefault();
        byId('view-compare').requestSubmit();
    });
}
