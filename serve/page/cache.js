/* cache.js - the view of a cache: its bytes compared with those of `full`, and the text, shaded by the percentage of
 * the cache's lists that hold each token. A list belongs to one layer and KV head. The user picks one token by mouse,
 * by touch or by the arrow keys. */

const LOOK_HINT = 'Point at a token, or use the arrow keys, to see when it was lost and where.';
const BLOCK_TOKENS = 128;
const LONG_TOKENS = 4096;
let cacheViews = 0;

class CacheView {
    constructor(box) {
        const names = ['held', 'of', 'bar', 'facts', 'map', 'look'];
        this.parts = fill(box, 'cache-view', names);
        this.id = 'map' + cacheViews++;
        this.other = null; /* the other view if two are side by side; both show the same token */
        const map = this.parts.map;
        map.setAttribute('aria-label', 'The text, shaded by what the cache holds');
        for (const kind of ['pointerover', 'click'])
            map.addEventListener(kind, (event) => {
                const at = this.spans.indexOf(event.target);
                if (at >= 0) this.lookAt(at);
            });
        map.addEventListener('keydown', (event) => this.move(event));
        this.clear();
    }

    clear() {
        this.spans = [];
        this.block = null; /* the element to which the next token is added */
        this.answer = null;
        this.at = -1;
        this.parts.map.replaceChildren();
        this.parts.map.removeAttribute('aria-activedescendant');
        this.parts.look.textContent = '';
        this.parts.held.textContent = '–';
        this.parts.of.textContent = 'appears with the next answer';
        this.parts.facts.textContent = '';
        this.setBar(0, 'nothing held yet');
    }

    setBar(percent, label) {
        this.parts.bar.firstElementChild.style.width = percent + '%';
        this.parts.bar.setAttribute('aria-label', label);
    }

    /* Shows an answer as far as it has arrived. */
    show(answer) {
        if (answer !== this.answer) this.clear();
        this.answer = answer;
        this.addTokens();
        if (answer.held) this.shade();
        if (answer.bytes) this.showBytes();
        this.showFacts();
        if (this.at >= 0) this.describe();
        else if (this.spans.length) this.parts.look.textContent = LOOK_HINT;
    }

    /* Adds the new tokens in blocks that end at a line end, because a browser lays out a whole block at once. */
    addTokens() {
        const {prompt, pieces} = this.answer, from = this.spans.length, map = this.parts.map;
        const low = map.scrollTop + map.clientHeight >= map.scrollHeight - 8;
        for (let i = from; i < prompt.length + pieces.length; i++) {
            const piece = i < prompt.length ? prompt[i] : pieces[i - prompt.length];
            const span = make('span', {id: this.id + '-' + i, role: 'option'}, piece);
            if (!piece.trim()) span.setAttribute('aria-label', piece.includes('\n') ? 'line break' : 'blank');
            if (!this.block) map.append(this.block = make('div', {role: 'presentation'}));
            this.block.append(span);
            this.spans.push(span);
            if (piece.endsWith('\n') && this.block.childElementCount >= BLOCK_TOKENS) this.block = null;
        }
        map.classList.toggle('long', this.spans.length > LONG_TOKENS);
        if (low && this.spans.length > from) map.scrollTop = map.scrollHeight;
    }

    shade() {
        const {held} = this.answer;
        for (let i = 0; i < held.length && i < this.spans.length; i++) {
            const span = this.spans[i];
            if (span.held === held[i]) continue;
            span.held = held[i];
            span.dataset.held = Math.ceil(held[i] / 10); /* ten shades, so that the browser can share their styles */
        }
    }

    showBytes() {
        const {cache, state, full} = this.answer.bytes, held = cache + state;
        this.parts.held.textContent = byteSize(held);
        this.parts.of.textContent = `${share(held, full)} of the ${byteSize(full)} of full`;
        this.setBar(
            full ? Math.min(100, (100 * held) / full) : 0,
            this.parts.held.textContent + ', ' + this.parts.of.textContent);
    }

    showFacts() {
        const answer = this.answer, facts = [], fast = speed(answer);
        if (answer.prompt.length) facts.push(number(answer.prompt.length + answer.pieces.length) + ' tokens');
        if (answer.first) facts.push('first token after ' + seconds(answer.first - answer.began));
        if (fast) facts.push(fast.toFixed(1) + ' tokens per second');
        this.parts.facts.textContent = facts.join(' · ');
    }

    /* ---- one token ---- */

    lookAt(at, fromOther = false) {
        const before = this.spans[this.at], map = this.parts.map;
        if (before) {
            before.classList.remove('at', 'twin');
            before.removeAttribute('aria-selected');
        }
        this.at = at;
        const span = this.spans[at];
        span.classList.add(fromOther ? 'twin' : 'at');
        span.setAttribute('aria-selected', 'true');
        map.setAttribute('aria-activedescendant', span.id);
        this.describe();
        /* Both views have the same prompt; their answers differ. */
        const other = this.other;
        if (!fromOther && other && other.answer && at < this.answer.prompt.length && at < other.answer.prompt.length)
            other.lookAt(at, true);
    }

    /* Returns the token one line above or below. */
    lineStep(direction) {
        const from = this.spans[this.at].getBoundingClientRect(), middle = from.left + from.width / 2;
        let best = this.at, line = null, distance = Infinity;
        for (let i = this.at + direction; i >= 0 && i < this.spans.length; i += direction) {
            const box = this.spans[i].getClientRects()[0];
            if (!box || (box.top - from.top) * direction < from.height / 2) continue;
            line = line ?? box.top;
            if (Math.abs(box.top - line) > from.height / 2) break;
            const far = Math.abs(box.left + box.width / 2 - middle);
            if (far < distance) [best, distance] = [i, far];
        }
        return best;
    }

    move(event) {
        const last = this.spans.length - 1, at = this.at;
        const steps = {
            ArrowLeft: () => at - 1,
            ArrowRight: () => at + 1,
            ArrowUp: () => this.lineStep(-1),
            ArrowDown: () => this.lineStep(1),
            Home: () => 0,
            End: () => last
        };
        if (last < 0 || !Object.hasOwn(steps, event.key) || event.ctrlKey || event.metaKey || event.altKey) return;
        event.preventDefault();
        this.lookAt(at < 0 ? 0 : Math.max(0, Math.min(last, steps[event.key]())));
        this.spans[this.at].scrollIntoView({block: 'nearest'});
    }

    /* Says how much of the text was computed when the last list lost the token. */
    whenLost(lost) {
        const prompt = this.answer.prompt.length, all = this.spans.length;
        if (lost < prompt) return `while the prompt was read, by its token ${number(lost)} of ${number(prompt)}`;
        if (lost === prompt) return 'at the end of the prompt, before the answer began';
        const word = lost <= all ? this.spans[lost - 1].textContent.trim() : '';
        return `in the answer, by its token ${number(lost - prompt)}` + (word ? ` (“${word}”)` : '');
    }

    describe() {
        const {held, lost, layers, prompt} = this.answer, at = this.at, percent = held && held[at];
        const piece = this.spans[at].textContent.replace(/\n/g, '↵').trim() || '␣';
        const place = at < prompt.length ? `token ${number(at + 1)} of the prompt` :
                                           `token ${number(at - prompt.length + 1)} of the answer`;
        let state = 'not in the cache yet';
        if (percent > 0) state = percent === 100 ? 'every list holds it' : `${percent} % of the lists hold it`;
        if (percent === 0)
            state = 'lost' + (lost && lost[at] ? ' ' + this.whenLost(lost[at]) : '') + ': no list holds it';
        const lines = [make('div', {}, make('b', {}, '“' + piece + '”'), ` ${place}: ${state}.`)];
        if (layers && layers.length && at < layers[0].length)
            lines.push(...this.layerStrip(layers.map((text) => +text[at])));
        this.parts.look.replaceChildren(...lines);
    }

    /* Shows a cell for each layer, shaded by the percentage of the layer's lists that hold the token, and says the same
     * in words. */
    layerStrip(levels) {
        const cells = levels.map((level) => {
            const cell = make('i');
            cell.style.setProperty('--h', (100 * level) / 9);
            return cell;
        });
        const held =
            levels.map((level, layer) => [level, layer]).filter(([level]) => level > 0).map(([, layer]) => layer);
        const text = held.length === levels.length ? `in each of the ${levels.length} layers` :
            held.length ? `in ${held.length} of ${levels.length} layers: ${ranges(held)}` :
                          `in none of the ${levels.length} layers`;
        const strip = make('div', {className: 'layers', 'aria-hidden': 'true'}, ...cells);
        return [strip, make('div', {className: 'dim'}, 'Held ' + text + '.')];
    }
}

/* Writes ascending numbers as ranges, such as "0-3, 8". */
function ranges(numbers) {
    const parts = [];
    for (let i = 0; i < numbers.length; i++) {
        const from = numbers[i];
        while (numbers[i + 1] === numbers[i] + 1) i++;
        parts.push(from === numbers[i] ? `${from}` : `${from}-${numbers[i]}`);
    }
    return parts.join(', ');
}
