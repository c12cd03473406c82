/* reader.h - splits an answer, byte by byte, into thoughts, content and calls of functions. The parts that
 * it has split off never change later, so a stream can send them at once. */
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
    READER_FRAME = 16,  /* stands around the content, and is never part of it */
    READER_CHANNEL = 32 /* gpt-oss's messages */
};
struct reader_mark {
    enum reader_kind kind;
    const char *text, *close; /* close: for thoughts, the text that ends them */
    bool wordy;               /* an English sentence, which is a mark only in answers with serve_reader.wordy */
};
extern const struct reader_mark reader_marks[]; /* ends with a NULL text */

struct serve_call {
    const char *name;            /* the function's name, in serve_reader.functions */
    struct serve_text arguments; /* as the model wrote them; may be invalid JSON */
    bool told;                   /* a stream has announced the call */
    size_t sent;                 /* bytes of the arguments that a stream has sent */
};

/* A part of the answer without the blanks at its end, which wait in `blanks` for more. */
struct reader_part {
    struct serve_text text, blanks;
    size_t sent; /* bytes that a stream has sent */
};

enum reader_state {
    READER_BEGIN, /* only blanks so far, or since the thoughts */
    READER_IN_THOUGHTS,
    READER_IN_CONTENT,
    READER_IN_CALL, /* in the JSON of calls (reader_call.c) */
    READER_AFTER_CALL,
    READER_IN_HEADER,   /* in the header of a message of gpt-oss */
    READER_IN_ARGUMENTS /* in a message of gpt-oss whose text is the arguments of a call */
};

enum call_state {
    CALL_OPEN,    /* before an object, a list of objects, or a plain name */
    CALL_PLAIN,   /* NAME of NAME[ARGS]{...} */
    CALL_BRACKET, /* [ARGS] or [CALL_ID] */
    CALL_ID,      /* ID of NAME[CALL_ID]ID[ARGS]{...} */
    CALL_FIRST,   /* before the first member */
    CALL_KEY,     /* before a further member's name */
    CALL_IN_KEY,
    CALL_COLON,
    CALL_VALUE,
    CALL_IN_NAME,
    CALL_IN_VALUE, /* in the value of an ignored member */
    CALL_IN_ARGUMENTS,
    CALL_IN_QUOTED, /* arguments within a string */
    CALL_NEXT,      /* after a member */
    CALL_LIST_NEXT  /* after an object of a list */
};

/* A JSON string that is decoded byte by byte. */
struct reader_string {
    bool escaped;
    unsigned digits, code, high; /* digits of \uXXXX still to come; its value; a first surrogate before it */
};

/* The state of the search for the end of a JSON value. */
struct reader_value {
    size_t depth;
    bool quoted, escaped, scalar;
};

struct reader_call {
    enum call_state state;
    bool list, more;  /* the call is in an array; the array's first call has ended */
    bool plain, bare; /* the form is NAME[ARGS]{...}; no mark precedes the call */
    bool begun, over; /* the call is in serve_reader.calls; its arguments are complete */
    bool muted;       /* the reader parses the call, but does not keep it */
    int key;          /* what the current member means */
    const char *name;
    struct serve_text word, early; /* name in progress; arguments that came before the name */
    struct reader_string string;
    struct reader_value value;
};

struct serve_reader {
    /* to be set before the first byte */
    const json_t *functions; /* array of the functions that may be called; NULL: calls are content */
    bool channels;           /* the model writes gpt-oss's messages */
    bool thoughts;           /* thoughts are separated from the content */
    bool wordy;              /* sentences can be marks, too */
    bool single;             /* only the first call is kept */

    /* the answer so far */
    struct reader_part content, reasoning;
    struct serve_call *calls; /* [call_count] */
    size_t call_count;
    bool failed; /* there was no memory */

    enum reader_state state;
    bool thought;                   /* thoughts have ended */
    bool framed;                    /* the content has a frame */
    bool hidden;                    /* gpt-oss: the end of the message is no part of the content */
    const struct reader_mark *mark; /* the mark that began the thoughts or the last calls; NULL: none */
    struct serve_text held;         /* bytes that may belong to a mark or to a call */
    struct reader_call call;
};

/* Reads the next bytes of an answer. */
void serve_reader_read(struct serve_reader *reader, const char *text, size_t bytes);
/* Ends the answer: held text becomes content. cut: a limit ended the answer. Returns true if the answer has calls and
 * the last call is complete. */
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
void reader_put(struct serve_reader *reader, char c);     /* the next byte */
void reader_content(struct serve_reader *reader, char c); /* a byte of content */
void reader_release(struct serve_reader *reader);         /* the held bytes are content */
/* Returns the name as stored in serve_reader.functions, or NULL if no function has this name. */
const char *reader_function(const struct serve_reader *reader, const char *name);
/* Begins a list of calls in the state after its mark. bare: no mark came before it. */
void reader_call_open(struct serve_reader *reader, bool bare);
/* Reads a byte of calls. Returns false if the byte does not belong to them. */
bool reader_call_put(struct serve_reader *reader, char c);
/* Returns true between two calls of a list, where bytes belong to neither call. */
bool reader_call_between(const struct serve_reader *reader);
/* Adds a call that has no arguments yet. */
void reader_call_begin(struct serve_reader *reader, const char *name);
/* Appends text [bytes] to the arguments of the last call. */
void reader_arguments(struct serve_reader *reader, const char *text, size_t bytes);
/* Reads the next byte of a JSON value. Returns true if the value ends with this byte, or has ended before it. In the
 * second case, which occurs with numbers and words, *before is true. */
bool reader_value_put(struct reader_value *value, char c, bool *before);

#endif
