/* page_looks.js - what a picture of the page must fulfil: contrasts of WCAG AA, labels, sizes. Each function returns
 * what is wrong, as texts. */
window.looks = (() => {
    'use strict';
    const context = Object.assign(document.createElement('canvas'), {width: 1, height: 1}).getContext('2d', {
        willReadFrequently: true
    });
    /* Lays colours over one another, the lowest first. Returns red, green and blue. */
    const mix = (colors) => {
        context.clearRect(0, 0, 1, 1);
        for (const color of colors) {
            context.fillStyle = color;
            context.fillRect(0, 0, 1, 1);
        }
        return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
    };
    const luminance = (rgb) => {
        const [r, g, b] = rgb.map((c) => c / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const contrast = (one, other) => {
        const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
        return (high + 0.05) / (low + 0.05);
    };
    const shown = (e) =>
        e.checkVisibility({opacityProperty: true, visibilityProperty: true}) && !e.closest('.hear, .skip');
    const name = (e) => e.localName + (e.id ? '#' + e.id : '') + (e.className ? '.' + String(e.className) : '');
    const grounds = (e) => {
        const colors = [];
        for (; e; e = e.parentElement) colors.unshift(getComputedStyle(e).backgroundColor);
        return ['#fff', ...colors];
    };
    const needed = (style) => {
        const size = parseFloat(style.fontSize);
        return size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5;
    };

    function texts() {
        const bad = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
        let count = 0;
        while (walker.nextNode()) {
            const e = walker.currentNode.parentElement;
            if (!walker.currentNode.data.trim() || ['SCRIPT', 'STYLE', 'NOSCRIPT', 'OPTION'].includes(e.tagName) ||
                !shown(e))
                continue;
            const style = getComputedStyle(e), below = grounds(e),
                  ratio = contrast(mix([...below, style.color]), mix(below));
            count++;
            if (ratio < needed(style))
                bad.push(`${ratio.toFixed(2)} at ${name(e)} ‘${walker.currentNode.data.trim().slice(0, 20)}’`);
        }
        return count > 20 ? bad : ['only ' + count + ' texts'];
    }

    /* Fields: their text, their placeholder, and their edge, which needs 3. */
    function fields() {
        const bad = [];
        for (const e of document.querySelectorAll('input:not([type=range]), select, textarea')) {
            if (!shown(e)) continue;
            const below = grounds(e), style = getComputedStyle(e), around = mix(grounds(e.parentElement));
            if (contrast(mix([...below, style.color]), mix(below)) < 4.5) bad.push('text of ' + name(e));
            if (e.placeholder &&
                contrast(mix([...below, getComputedStyle(e, '::placeholder').color]), mix(below)) < 4.5)
                bad.push('placeholder of ' + name(e));
            if (contrast(mix([...grounds(e.parentElement), style.borderTopColor]), around) < 3)
                bad.push('edge of ' + name(e));
            if (e.getBoundingClientRect().height < 38) bad.push('small: ' + name(e));
        }
        return bad;
    }

    function labels() {
        const bad = [], ids = [...document.querySelectorAll('[id]')].map((e) => e.id);
        for (const e of document.querySelectorAll('input, select, textarea'))
            if (!e.labels.length && !e.getAttribute('aria-label')) bad.push('no label: ' + name(e));
        for (const e of document.querySelectorAll('button, a, summary')) {
            if (!e.textContent.trim() && !e.getAttribute('aria-label')) bad.push('no name: ' + name(e));
            const box = e.getBoundingClientRect();
            if (shown(e) && !e.closest('.text') && (box.height < 24 || box.width < 24)) bad.push('small: ' + name(e));
        }
        ids.forEach((id, i) => {
            if (ids.indexOf(id) !== i) bad.push('an id twice: ' + id);
        });
        return bad;
    }

    function width() {
        const wide = document.documentElement.clientWidth, bad = [];
        if (document.documentElement.scrollWidth > wide)
            bad.push('the page is ' + document.documentElement.scrollWidth + ' wide');
        for (const e of document.querySelectorAll('main *'))
            if (shown(e) && !e.closest('pre, .table, .layers, option') && e.getBoundingClientRect().right > wide + 1)
                bad.push('cut off: ' + name(e));
        return bad.slice(0, 3);
    }

    /* All that the Tab key should reach. */
    const stops =
        () => [...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex="0"]')]
                  .filter((e) => !e.disabled && e.checkVisibility({visibilityProperty: true}));
    return {texts, fields, labels, width, stops, name};
})();
