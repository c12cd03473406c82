/* server.js - requests to the server, and the stream of an answer. */

/* The answer to GET /kvcull: version, model, kv, context, layers, heads, methods. */
let about = null;

async function request(path, body, signal) {
    const headers = {};
    if (byId('key').value) headers.Authorization = 'Bearer ' + byId('key').value;
    if (body) headers['Content-Type'] = 'application/json';
    let answer;
    try {
        answer =
            await fetch(path, {method: body ? 'POST' : 'GET', headers, signal, body: body && JSON.stringify(body)});
    } catch (error) {
        throw error.name === 'AbortError' ? error : new Error('The server does not answer.');
    }
    if (answer.ok) return answer;
    if (answer.status === 401) byId('lock').hidden = false;
    const error = new Error('HTTP ' + answer.status);
    try {
        const said = (await answer.json()).error;
        error.message = said.message;
        error.param = said.param;
    } catch { /* a proxy has answered, so only the status is useful */
    }
    throw error;
}

const requestJson = async (path, body, signal) => (await request(path, body, signal)).json();

/* Returns an answer that is arriving: its text, its tokens, and what the cache holds of prompt and answer. */
function newAnswer() {
    return {
        content: '',
        reasoning: '',
        prompt: [],
        pieces: [],
        held: null,
        bytes: null,
        lost: null,
        layers: null,
        progress: null,
        finish: null,
        over: false,
        began: performance.now(),
        first: 0,
        last: 0
    };
}

/* Adds one event of the stream to the answer. */
function receive(answer, event) {
    if (event.error) throw new Error(event.error.message);
    if (event.prompt_progress) answer.progress = event.prompt_progress;
    const choice = event.choices && event.choices[0];
    if (!choice) return;
    const delta = choice.delta || {};
    answer.content += delta.content || '';
    answer.reasoning += delta.reasoning_content || '';
    if (choice.prompt_pieces && choice.prompt_pieces.length) answer.prompt = choice.prompt_pieces;
    if (choice.pieces && choice.pieces.length) {
        answer.pieces.push(...choice.pieces);
        answer.last = performance.now();
        if (!answer.first) answer.first = answer.last;
    }
    for (const name of ['held', 'bytes', 'lost', 'layers'])
        if (choice[name]) answer[name] = choice[name];
    if (choice.finish_reason) answer.finish = choice.finish_reason;
}

/* Yields the events of a stream of server-sent events. */
async function* events(body) {
    const reader = body.getReader(), utf = new TextDecoder();
    let rest = '';
    for (;;) {
        let part;
        try {
            part = await reader.read();
        } catch (error) {
            throw error.name === 'AbortError' ? error : new Error('The connection broke.');
        }
        if (part.done) return;
        const parts = (rest + utf.decode(part.value, {stream: true})).split('\n\n');
        rest = parts.pop();
        for (const text of parts)
            if (text.startsWith('data: ')) yield text.slice(6);
    }
}

/* Asks for an answer and calls show() as it arrives. If show() is slow, it is called less often, so that the page
 * stays usable. */
async function converse(question, answer, signal, show) {
    let timer = 0, spent = 0;
    const draw = () => {
        const began = performance.now();
        timer = 0;
        show();
        void document.body.offsetHeight; /* the time must include the layout */
        spent = performance.now() - began;
    };
    const body = {...question, stream: true, return_held: true, return_lost: true, return_progress: true};
    try {
        const response = await request('v1/chat/completions', body, signal);
        for await (const text of events(response.body)) {
            if (text === '[DONE]') answer.over = true;
            else receive(answer, JSON.parse(text));
            if (!timer) timer = setTimeout(draw, Math.max(16, 4 * spent));
        }
        if (!answer.over) throw new Error('The answer ended early.');
    } finally {
        clearTimeout(timer);
        show();
    }
}

/* Returns a policy as a field of a request. The server's own policy is left out: it may read files, which a request
 * must not name. */
const policyField = (kv) => kv === about.kv ? {} : {kv};

/* Returns the tokens per second of an answer; 0: unknown. The time to the first token belongs to the prompt. If all
 * tokens arrive at once, the speed is unknown. */
const speed = (answer) => answer.pieces.length > 1 && answer.last > answer.first + 20 ?
    (answer.pieces.length - 1) / ((answer.last - answer.first) / 1000) :
    0;

/* Says that the model is reading the prompt, with the progress that the server reports. */
function progressSign(answer) {
    const {total, processed} = answer.progress || {};
    const text =
        total ? `Reading the prompt: ${number(processed)} of ${number(total)} tokens` : 'Waiting for the server';
    const bar = make('progress', {'aria-label': text});
    if (total) {
        bar.max = total;
        bar.value = processed;
    }
    return make('div', {className: 'reads'}, text, bar);
}
