/* reader.h - splits an answer, byte by byte, into thoughts, content and calls of functions. Text that has been assigned
 * to a part never changes later, so a stream can send it at once. */
#ifndef KVC_SERVE_READER_H
#define KVC_SERVE_READER_H

#include <jansson.h>

#include "serve/text.h"

/* A mark: a text that models write around a part of an answer. */
enum reader_kind {
    READER_THINKS = 1,  /* thoughts begin */
    READER_THOUGHT = 2, /* thoughts end */
    READER_CALLS = 4,   /* calls begin */
    READER_CALLED = 8,  /* calls end */
    READER_FRAME = 16,  /* the mark surrounds the content and is never part of it */
    READER_CHANNEL = 32 /* begins a message of gpt-oss */
};
struct reader_mark {
    enum reader_kind kind;
    const char *text, *close; /* `close`: the text that ends thoughts; only for marks that begin them */
    bool wordy;               /* an English sentence; it is a mark only if serve_reader.wordy is set */
};
extern const struct reader_mark reader_marks[]; /* the last element has a NULL text */

struct serve_call {
    const char *name;            /* the function's name, in serve_reader.functions */
    struct serve_text arguments; /* as the model wrote them; may be invalid JSON */
    bool told;                   /* true if a stream has announced the call */
    size_t sent;                 /* number of bytes of the arguments that a stream has sent */
};

/* A part of the answer. Blanks at its end are in `blanks` until more text follows. */
struct reader_part {
    struct serve_text text, blanks;
    size_t sent; /* number of bytes that a stream has sent */
};

enum reader_state {
    READER_BEGIN, /* only blanks have come so far, or since the thoughts ended */
    READER_IN_THOUGHTS,
    READER_IN_CONTENT,
    READER_IN_CALL, /* in the JSON of calls (reader_call.c) */
    READER_AFTER_CALL,
    READER_IN_HEADER,   /* in the header of a message of gpt-oss */
    READER_IN_ARGUMENTS /* in a message of gpt-oss whose text is a call's arguments */
};

enum call_state {
    CALL_OPEN,    /* before an object, a list of objects, or a name without quotes */
    CALL_PLAIN,   /* in NAME of NAME[ARGS]{...} */
    CALL_BRACKET, /* in [ARGS] or [CALL_ID] */
    CALL_ID,      /* in ID of NAME[CALL_ID]ID[ARGS]{...} */
    CALL_FIRST,   /* before the first member */
    CALL_KEY,     /* before a further member's name */
    CALL_IN_KEY,
    CALL_COLON,
    CALL_VALUE,
    CALL_IN_NAME,
    CALL_IN_VALUE, /* in the value of an ignored member */
    CALL_IN_ARGUMENTS,
    CALL_IN_QUOTED, /* in arguments that are written as a string */
    CALL_NEXT,      /* after a member */
    CALL_LIST_NEXT  /* after an object in a list */
};

/* The state of decoding a JSON string byte by byte. */
struct reader_string {
    bool escaped;
    unsigned digits, code, high; /* `digits`: how many digits of \uXXXX are still to come; `code`: its value so far;
                                  * `high`: a first surrogate before it */
};

/* The state of the search for the end of a JSON value. */
struct reader_value {
    size_t depth;
    bool quoted, escaped, scalar;
};

struct reader_call {
    enum call_state state;
    bool list, more;  /* `list`: the call is in an array; `more`: the array's first call has ended */
    bool plain, bare; /* `plain`: the form is NAME[ARGS]{...}; `bare`: no mark came before the call */
    bool begun, over; /* `begun`: the call is in serve_reader.calls; `over`: its arguments are complete */
    bool muted;       /* the call is parsed, but not kept */
    int key;          /* what the current member means */
    const char *name;
    struct serve_text word, early; /* `word`: the name so far; `early`: arguments that came before the name */
    struct reader_string string;
    struct reader_value value;
};

struct serve_reader {
    /* the caller sets these members before the first byte */
    const json_t *functions; /* array of the functions that may be called; NULL: calls are content */
    bool channels;           /* true if the model writes gpt-oss's messages */
    bool thoughts;           /* true if thoughts are separated from the content */
    bool wordy;              /* true if sentences can be marks */
    bool single;             /* true if only the first call is kept */

    /* the answer so far */
    struct reader_part content, reasoning;
    struct serve_call *calls; /* [call_count] */
    size_t call_count;
    bool failed; /* true if memory ran out */

    enum reader_state state;
    bool thought;                   /* true if thoughts have ended */
    bool framed;                    /* true if the content has a frame */
    bool hidden;                    /* gpt-oss: the end of the message is not part of the content */
    const struct reader_mark *mark; /* the mark that began the thoughts or the last calls; NULL: none */
    struct serve_text held;         /* bytes that may belong to a mark or to a call */
    struct reader_call call;
};

/* Reads the next bytes of an answer. */
void serve_reader_read(struct serve_reader *reader, const char *text, size_t bytes);
/* Ends the answer. Held text becomes content. `cut` tells that a limit ended the answer. Returns true if the answer has
 * calls and the last call is complete. */
bool serve_reader_end(struct serve_reader *reader, bool cut);
void serve_reader_free(struct serve_reader *reader);
/* Returns true if the name of this control token matters to the reader. */
bool serve_reader_wants(const struct serve_reader *reader, const char *name);
/* Returns the mark that opens thoughts at the end of a prompt, or NULL. */
const struct reader_mark *serve_reader_opened(const char *prompt, size_t bytes);

/* ---- within the reader ---- */

static inline bool reader_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
static inline void reader_clear(struct serve_text *text) {
    text->bytes = 0;
    if (text->data)
        text->data[0] = '\0';
}
void reader_put(struct serve_reader *reader, char c);     /* reads the next byte */
void reader_content(struct serve_reader *reader, char c); /* appends a byte of content */
void reader_release(struct serve_reader *reader);         /* appends the held bytes to the content */
/* Returns the name as stored in serve_reader.functions, or NULL if no function has this name. */
const char *reader_function(const struct serve_reader *reader, const char *name);
/* Begins a list of calls. `bare` tells that no mark came before it. */
void reader_call_open(struct serve_reader *reader, bool bare);
/* Reads a byte of calls. Returns false if the byte does not belong to them. */
bool reader_call_put(struct serve_reader *reader, char c);
/* Returns true between two calls of a list, where bytes belong to neither call. */
bool reader_call_between(const struct serve_reader *reader);
/* Adds a call that has no arguments yet. */
void reader_call_begin(struct serve_reader *reader, const char *name);
/* Appends text [bytes] to the arguments of the last call. */
void reader_arguments(struct serve_reader *reader, const char *text, size_t bytes);
/* Reads the next byte of a JSON value. Returns true if the value ends with this byte or ended before it. Numbers and
 * words end before it; *before is true then. */
bool reader_value_put(struct reader_value *value, char c, bool *before);

#endif
