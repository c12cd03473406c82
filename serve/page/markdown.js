/* markdown.js - shows Markdown. The library only parses it. This file makes the elements, kind by kind, so that no
 * text of the model becomes HTML. HTML appears as text. Pictures appear as links, because the page loads nothing from
 * elsewhere. Links lead only to http, https or mail. */

const MARKDOWN = typeof marked === 'object' && typeof marked.lexer === 'function';
const MARKDOWN_MOST = 100000; /* number of characters; a longer text is shown as plain text */
const MARKDOWN_MARKS = 500;   /* number of marks in a paragraph: the library's time grows with the square of this
                               * number */
const MARKDOWN_DEEP = 40;     /* nesting of lists and quotes */
const MARKDOWN_SLOW = 100;    /* milliseconds; a text that takes longer is shown as plain text until it is complete */

/* The library writes these five characters as entities. */
const ENTITIES = {
    '&amp;': '&',
    '&lt;': '<',
    '&gt;': '>',
    '&quot;': '"',
    '&#39;': '\''
};
const unescapeText = (text) => text.replace(/&(amp|lt|gt|quot|#39);/g, (entity) => ENTITIES[entity]);

function safeLink(href, children) {
    let url = null;
    try {
        url = new URL(unescapeText(href));
    } catch { /* not an address: shows the text of the link */
    }
    if (!url || !['http:', 'https:', 'mailto:'].includes(url.protocol)) return make('span', {}, ...children);
    return make('a', {href: url.href, target: '_blank', rel: 'noopener noreferrer nofollow'}, ...children);
}

function codeBlock(text, language) {
    const copies = button('Copy the code', 'Copy', () => copy(text, copies));
    return make(
        'figure', {className: 'code'}, make('figcaption', {}, make('span', {}, language || 'code'), copies),
        make('pre', {tabIndex: 0}, make('code', {}, text)));
}

function tableOf(token, depth) {
    const row = (cells, tag) => make('tr', {}, ...cells.map((cell) => make(tag, {}, ...inlines(cell.tokens, depth))));
    return make(
        'div', {className: 'table', tabIndex: 0},
        make(
            'table', {}, make('thead', {}, row(token.header, 'th')),
            make('tbody', {}, ...token.rows.map((cells) => row(cells, 'td')))));
}

function listOf(token, depth) {
    const items = token.items.map((item) => {
        const box = item.task ? [item.checked ? '☑ ' : '☐ '] : [];
        return make('li', {}, ...box, ...blocks(item.tokens, depth));
    });
    const list = make(token.ordered ? 'ol' : 'ul', {}, ...items);
    if (token.ordered && Number.isInteger(token.start)) list.start = token.start;
    return list;
}

/* Inline parts, by the type of their token. Tokens of other types are shown as the model wrote them. */
const INLINE = {
    text: (token, depth) => token.tokens ? inlines(token.tokens, depth) : [unescapeText(token.text)],
    escape: (token) => [unescapeText(token.text)],
    strong: (token, depth) => [make('strong', {}, ...inlines(token.tokens, depth))],
    em: (token, depth) => [make('em', {}, ...inlines(token.tokens, depth))],
    del: (token, depth) => [make('del', {}, ...inlines(token.tokens, depth))],
    br: () => [make('br')],
    codespan: (token) => [make('code', {}, unescapeText(token.text))],
    link: (token, depth) => [safeLink(token.href, inlines(token.tokens, depth))],
    image: (token) => [safeLink(token.href, [unescapeText(token.text || token.href)])],
};

function inlines(tokens, depth) {
    return (tokens || []).flatMap((token) => {
        const kind = depth < MARKDOWN_DEEP && Object.hasOwn(INLINE, token.type) && INLINE[token.type];
        return kind ? kind(token, depth + 1) : [token.raw];
    });
}

const BLOCK = {
    space: () => [],
    def: () => [],
    hr: () => [make('hr')],
    code: (token) => [codeBlock(token.text, token.lang)],
    heading: (token, depth) => [make(token.depth < 3 ? 'h3' : 'h4', {}, ...inlines(token.tokens, depth))],
    paragraph: (token, depth) => [make('p', {}, ...inlines(token.tokens, depth))],
    blockquote: (token, depth) => [make('blockquote', {}, ...blocks(token.tokens, depth))],
    list: (token, depth) => [listOf(token, depth)],
    table: (token, depth) => [tableOf(token, depth)],
    text: INLINE.text,
};

function blocks(tokens, depth) {
    return (tokens || []).flatMap((token) => {
        const kind = depth < MARKDOWN_DEEP && Object.hasOwn(BLOCK, token.type) && BLOCK[token.type];
        return kind ? kind(token, depth + 1) : [make('p', {className: 'plain-text'}, token.raw)];
    });
}

/* Returns true if the library would be slow on a text, or recurse deeply. Ignores fenced code. */
function tooHard(text) {
    const rest = text.replace(/^(```|~~~)[^]*?^\1/gm, '');
    const deep = /^[ \t]*(?:(?:>|[-+*]|\d+[.)])[ \t]*){50}|^[ \t]{100}[ \t]*(?:>|[-+*]|\d+[.)])/m.test(rest);
    return deep || rest.split(/\n[ \t]*\n/).some((part) => (part.match(/[*_[`<~]/g) || []).length > MARKDOWN_MARKS);
}

function markdownTokens(text) {
    if (!MARKDOWN || text.length > MARKDOWN_MOST || tooHard(text)) return null;
    try {
        return marked.lexer(text);
    } catch { /* the library failed, for example because the stack overflowed */
        return null;
    }
}

/* Shows a growing text. Unchanged blocks at its beginning keep their elements, so that the user's selection
 * survives. */
function showMarkdown(box, text, whole = true) {
    const began = performance.now();
    const tokens = box.slow && !whole ? null : markdownTokens(text);
    box.slow = box.slow || performance.now() - began > MARKDOWN_SLOW;
    if (!tokens) {
        box.blocks = null;
        box.replaceChildren(text ? make('div', {className: 'plain-text'}, text) : '');
        return;
    }
    const before = box.blocks || [];
    let same = 0;
    while (same < before.length && same + 1 < tokens.length && before[same].raw === tokens[same].raw) same++;
    if (!box.blocks) box.replaceChildren();
    for (const old of before.slice(same)) old.nodes.forEach((node) => node.remove());
    box.blocks = before.slice(0, same);
    for (const token of tokens.slice(same)) {
        const nodes = blocks([token], 0).map((node) => typeof node === 'string' ? document.createTextNode(node) : node);
        box.append(...nodes);
        box.blocks.push({raw: token.raw, nodes});
    }
}
