/* report_check.js - put into a copy of a report by test_report.sh: whether a browser lays it out without texts that
 * cover each other, without anything beyond the page's right edge, and without an empty chart. Says what it found to the
 * page around it. */
window.addEventListener('load', function () {
    'use strict';
    const found = [];
    const wide = document.documentElement.clientWidth;
    const name = (e) => e.tagName + '.' + e.getAttribute('class') + ' "' + e.textContent.trim().slice(0, 40) + '"';
    const cover = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 &&
        Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2;
    for (const d of document.querySelectorAll('details')) d.open = true;
    if (document.documentElement.scrollWidth > wide)
        found.push('the page is ' + document.documentElement.scrollWidth + ' wide');
    for (const e of document.querySelectorAll('body *')) {
        const r = e.getBoundingClientRect();
        if (r.width > 0 && (r.right > wide + 1 || r.left < -1)) found.push('beyond the page: ' + name(e));
    }
    for (const svg of document.querySelectorAll('svg')) {
        if (!svg.querySelector('rect, circle, path')) found.push('an empty chart: ' + svg.getAttribute('aria-label'));
        if (svg.getBoundingClientRect().height < 4) found.push('a flat chart: ' + svg.getAttribute('aria-label'));
    }
    /* texts: in each picture, table and list, pair by pair */
    let texts = 0;
    for (const part of document.querySelectorAll('svg, tr, ul, thead, summary, header')) {
        const boxes = [];
        const walk = document.createTreeWalker(part, NodeFilter.SHOW_TEXT);
        for (let node = walk.nextNode(); node; node = walk.nextNode()) {
            if (!node.data.trim() || node.parentElement.closest('title')) continue;
            const range = document.createRange();
            range.selectNodeContents(node);
            for (const r of range.getClientRects())
                if (r.width > 0) boxes.push({r: r, text: node.data.trim()});
        }
        texts += boxes.length;
        for (let i = 0; i < boxes.length; i++)
            for (let j = 0; j < i; j++)
                if (cover(boxes[i].r, boxes[j].r))
                    found.push('texts cover each other: "' + boxes[i].text + '" and "' + boxes[j].text + '"');
    }
    if (texts < 10) found.push('hardly a text: ' + texts);
    window.parent.postMessage(found.length ? 'WRONG ' + found.length + ': ' + found.slice(0, 12).join('; ') : 'FINE', '*');
});
