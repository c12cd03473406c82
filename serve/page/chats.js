/* chats.js - the chats that the browser keeps, each under its own name in localStorage, so that two windows do not
 * overwrite each other's chats. If the browser allows no storage, the page works without it. */

const CHAT_PREFIX = 'kvcull.chat.';

function newChat() {
    return {id: Date.now().toString(36) + Math.random().toString(36).slice(2, 8), system: '', messages: [], changed: 0};
}

const chatTitle = (chat) => {
    const first = chat.messages.find((message) => message.role === 'user');
    return first ? first.content.trim().replace(/\s+/g, ' ').slice(0, 80) : 'New chat';
};

/* Returns a kept chat, or null if the stored text is not a chat: other programs may have written it. */
function readChat(text) {
    let chat = null;
    try {
        chat = JSON.parse(text);
    } catch { /* the text is not JSON */
    }
    const good = chat && typeof chat.id === 'string' && typeof chat.system === 'string' &&
        Number.isFinite(chat.changed) && Array.isArray(chat.messages) &&
        chat.messages.every(
            (message) =>
                message && typeof message.content === 'string' && ['user', 'assistant'].includes(message.role));
    return good ? chat : null;
}

/* All kept chats, the newest first. */
function keptChats() {
    const chats = [];
    try {
        for (let i = 0; i < localStorage.length; i++) {
            const name = localStorage.key(i),
                  chat = name.startsWith(CHAT_PREFIX) && readChat(localStorage.getItem(name));
            if (chat && name === CHAT_PREFIX + chat.id) chats.push(chat);
        }
    } catch { /* the browser allows no storage */
    }
    return chats.sort((one, other) => other.changed - one.changed);
}

/* Stores a chat. Returns false if the browser does not store it. */
function keepChat(chat) {
    chat.changed = Date.now();
    try {
        localStorage.setItem(CHAT_PREFIX + chat.id, JSON.stringify(chat));
        return true;
    } catch {
        return false;
    }
}

function dropChat(chat) {
    try {
        localStorage.removeItem(CHAT_PREFIX + chat.id);
    } catch { /* the chat was not stored */
    }
}
