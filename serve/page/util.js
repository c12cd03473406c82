/* util.js - short helpers: elements, numbers, the clipboard. The page's files are joined into one script. */
'use strict';

const byId = (id) => document.getElementById(id);

/* Makes an element. Children may be elements or texts; a text never becomes HTML. */
function make(tag, properties = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
        if (name in element) element[name] = value;
        else element.setAttribute(name, value);
    }
    element.append(...children);
    return element;
}

const button = (label, text, action, className = 'plain small') => {
    const made = make('button', {type: 'button', className, onclick: action}, text);
    if (label !== text) made.setAttribute('aria-label', label);
    return made;
};

const number = (n) => n.toLocaleString('en');

function byteSize(n) {
    const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
    let i = 0;
    for (; n >= 1024 && i + 1 < units.length; i++) n /= 1024;
    return (i ? n.toFixed(n < 10 ? 2 : n < 100 ? 1 : 0) : n) + ' ' + units[i];
}

const share = (part, whole) => (whole ? Math.round((100 * part) / whole) : 0) + ' %';

function seconds(milliseconds) {
    const s = milliseconds / 1000;
    return (s < 10 ? s.toFixed(2) : s < 100 ? s.toFixed(1) : Math.round(s)) + ' s';
}

const newSeed = () => Math.floor(Math.random() * 2 ** 31);

/* Returns a function that calls `action` when it has not been called again for a short time. */
function later(action, milliseconds = 200) {
    let timer = 0;
    return () => {
        clearTimeout(timer);
        timer = setTimeout(action, milliseconds);
    };
}

/* Copies a text. A page that is served over plain HTTP from another machine has no navigator.clipboard. */
async function copy(text, from) {
    let good = true;
    try {
        await navigator.clipboard.writeText(text);
    } catch {
        const area = make('textarea', {value: text, className: 'hear'});
        document.body.append(area);
        area.select();
        good = document.execCommand('copy');
        area.remove();
        from.focus();
    }
    const before = from.textContent;
    from.textContent = good ? 'Copied' : 'Not copied';
    setTimeout(() => { from.textContent = before; }, 1500);
}

/* Returns true if the end of the conversation is visible above the message field. Then it should stay visible while the
 * conversation grows. */
const inSight = (end) => end.getBoundingClientRect().top <= byId('form').getBoundingClientRect().top + 40;

/* Copies a template's content into a box, and returns the parts with the given classes by name. */
function fill(box, template, names) {
    box.append(byId(template).content.cloneNode(true));
    return Object.fromEntries(names.map((name) => [name, box.querySelector('.' + name)]));
}
