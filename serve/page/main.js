/* main.js - starts the page: asks the server for its model and methods, and shows the view that the page's address
 * names. */

function showView() {
    const compare = location.hash === '#compare';
    byId('view-chat').hidden = compare;
    byId('view-compare').hidden = !compare;
    byId('go-chat').toggleAttribute('aria-current', !compare);
    byId('go-compare').toggleAttribute('aria-current', compare);
    const kept = location.hash.startsWith('#chat/') && location.hash !== '#chat/' + chat.id &&
        keptChats().find((one) => location.hash === '#chat/' + one.id);
    if (kept) openChat(kept);
    (compare ? sides : [{policy: policyForm}]).forEach((side) => side.policy.forecastLater());
}

async function begin() {
    about = await requestJson('kvcull');
    byId('lock').hidden = true;
    byId('model').textContent = about.model;
    document.title = 'kvcull: ' + about.model;
    beginChat();
    beginCompare();
    showChat();
    showView();
    window.addEventListener('hashchange', showView);
    byId('ask').focus();
    document.documentElement.dataset.ready = 'yes';
}

/* Starts the page, or shows the reason of a failure. After the user has entered an API key, a second try may
 * succeed. */
function tryToBegin() {
    if (about) return;
    wrong('');
    begin().catch((error) => {
        wrong(error.message);
        if (!byId('lock').hidden) byId('key').focus();
    });
}

/* The list of chats is open if the window has room for it next to the chat. */
const roomy = window.matchMedia('(min-width: 1101px)');
const foldChats = () => { byId('chats').open = roomy.matches; };
roomy.addEventListener('change', foldChats);
foldChats();
byId('no-markdown').hidden = MARKDOWN;
byId('key').addEventListener('change', tryToBegin);
tryToBegin();
