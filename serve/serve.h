/* serve.h - types and functions that the server's files share. HTTP threads parse requests and write answers (http.c,
 * route.c, prepare.c). One engine thread computes all requests (loop.c). The two sides share a queue and one lock.
 *
 * The server uses the library's public headers and the program's helpers (cli/cli.h). */
#ifndef KVC_SERVE_SERVE_H
#define KVC_SERVE_SERVE_H

#include <pthread.h>
#include <stdatomic.h>

#include "cli/cli.h"
#include "kvcull/grammar.h"
#include "kvcull/policy.h"
#include "serve/fields.h"
#include "serve/metrics.h"
#include "serve/options.h"
#include "serve/reader.h"
#include "serve/text.h"

/* Fixed limits, which no option changes. */
enum {
    SERVE_DEPTH_MOST = 64,       /* nesting of arrays and objects in a body */
    SERVE_VALUES_MOST = 1 << 20, /* values in a body */
    SERVE_CHOICES_MOST = 128,    /* answers of a request: prompts times n */
    SERVE_STOPS_MOST = 16,       /* stop texts of a request */
    SERVE_BIASES_MOST = 1024,    /* tokens in a logit_bias */
    SERVE_TOP_MOST = 20,         /* top_logprobs */
    SERVE_STEP = 256,            /* tokens by which the reservation of an answer without a length limit grows */
    SERVE_UPLOAD_SECONDS = 60,   /* time limit for receiving a body */
    SERVE_BODIES_MOST = 16,      /* bodies of the largest size, of all clients together */
    SERVE_OUT_LEAST = 64 << 10,  /* bytes reserved for the unread output of a stream */
    SERVE_OUT_MOST = 64 << 20    /* unread bytes at which a stream is closed */
};

/* ---- one request ---- */

struct serve_tokens {
    int32_t *items;
    size_t count;
};

struct serve_record { /* the probabilities at one token */
    int32_t token;
    bool known; /* false for a prompt's first token, which has no logits before it */
    float logprob;
    struct kvc_logprob *best; /* [request->top] or NULL */
};

enum serve_stage { SERVE_WAITS, SERVE_PROMPT, SERVE_DECODES, SERVE_OVER };

struct serve_request;

struct serve_choice { /* one answer; only the engine thread uses it until the request is over */
    struct serve_request *request;
    uint32_t index;
    const struct serve_tokens *prompt;
    enum serve_stage stage;
    struct kvc_session *session;
    struct kvc_sampler *sampler; /* NULL without a session, because it is as large as the vocabulary */
    struct kvc_hash *hash;       /* hash of all logits that tokens were chosen from; NULL unless requested */
    uint64_t reserved;           /* bytes reserved for this answer */
    uint64_t promised;           /* tokens of the answer that `reserved` covers */
    bool goes_on;                /* it continues a session of an earlier turn */
    size_t seen, cached;         /* prompt tokens in the session: now, and when the answer began */
    size_t share_at;             /* prompt tokens after which a copy is cached for other prompts; 0: none */
    bool waited;                 /* it had to wait for memory or for a place in the batch */
    bool looked;                 /* prefixes shared with other prompts have been searched for */
    int32_t pending;             /* the last token, which the session has not computed yet */
    struct serve_tokens answer;
    size_t capacity;              /* capacity of `answer` in tokens */
    struct serve_record *records; /* [record_count]: tokens of the echoed prompt, then of the answer */
    size_t record_count, record_capacity, records_sent, tokens_sent;
    struct serve_text text;
    size_t text_ready, text_sent; /* final bytes; bytes sent */
    size_t echoed, offset;        /* bytes of the echoed prompt; characters of the records sent */
    struct serve_reader reader;   /* for a chat: splits the text up to text_ready into parts */
    bool first;                   /* the text is empty so far */
    bool said;                    /* a stream's first chunk, which has the role, has been sent */
    const char *finish;           /* "stop", "length", "tool_calls" */
    unsigned char *held;          /* [held_count]: for each token, the percentage of lists that hold it */
    size_t held_count;
    uint32_t *lost; /* [lost_count]: for each token 0, or the number of computed tokens when no list held it */
    char *cells;    /* [layers, lost_count + 1]: for each layer a text that says which part of its lists hold a token */
    size_t lost_count;
    bool held_news; /* `held` has changed since it was last sent */
    struct kvc_session_stats stats;
    size_t progress;     /* percentage of the prompt that return_progress has reported, plus 1; 0: nothing yet */
    double prompt_began; /* when the first chunk of its prompt was computed */
    uint64_t turn;       /* when a chunk of its prompt was last computed, or when it was admitted */
};

enum serve_state { SERVE_QUEUED, SERVE_RUNS, SERVE_DONE, SERVE_FAILED };

struct serve_error {  /* an OpenAI error object */
    int status;       /* HTTP status */
    const char *type; /* "invalid_request_error" */
    const char *code; /* NULL: none */
    char param[64];   /* the field at fault, or "" */
    char text[400];
    int retry_after; /* seconds; 0: no Retry-After header */
};

struct serve;

struct serve_request {
    /* set before the request is queued, read-only afterwards */
    struct serve *serve;
    uint64_t id;
    int64_t created;
    double arrived;
    bool chat;
    struct serve_values values; /* JSON pointers are NULL after preparation, except stop, which holds a reference */
    struct kvc_bias *biases;    /* [bias_count] */
    size_t bias_count;
    struct kvc_grammar *grammar;    /* grammar of the answers; NULL: any text */
    json_t *functions;              /* functions that the model may call (tools.c); NULL: none */
    bool forced, named;             /* the answers must be calls; all calls must be of one function */
    bool channels, thoughts, wordy; /* copied to the answers' readers */
    const char *opening;            /* text that the answers' readers read first; NULL: none */
    char *spec;                     /* policy string */
    unsigned stages;                /* stages of the policy */
    struct serve_tokens *prompts;
    size_t prompt_count;
    struct serve_choice *choices;
    size_t choice_count;
    uint64_t limit;   /* maximum tokens of an answer */
    uint64_t promise; /* tokens of an answer that memory is reserved for at its start; at most limit */
    bool logprobs;
    size_t top;     /* alternatives at each token */
    bool abandoned; /* the request failed or its client disconnected; only the engine thread uses it */

    /* protected by serve->lock */
    int references;
    enum serve_state state;
    struct serve_error error; /* valid in state SERVE_FAILED */
    bool gone;                /* the client disconnected */
    struct serve_text out;    /* unread output of a stream */
    size_t out_taken;
    uint64_t buffered; /* bytes of --mem reserved for `out` */
    bool out_over;
    size_t choices_over;
    uint64_t tokens_out;    /* tokens of all answers so far */
    uint64_t cached_tokens; /* tokens of all prompts that cached sessions held */
    double first_token;     /* seconds after the arrival */
    void *connection;       /* struct MHD_Connection */
    int descriptor;         /* the connection's socket */
    bool suspended;
    struct serve_request *next; /* in the queue, then in the engine thread's list */
};

/* ---- the server ---- */

struct serve_keys {
    char (*key)[256]; /* [count], padded with zeros */
    size_t count;
};

struct serve {
    const struct cli_command *command;
    const struct serve_options *options;
    struct kvc_engine *engine;
    struct kvc_model *model;
    const struct kvc_model_info *info;
    char name[128];      /* the model's name in requests and answers */
    char *template_text; /* content of --chat-template-file, or NULL */
    uint64_t memory;     /* bytes that sessions may hold */
    uint64_t context;    /* maximum tokens of a session; 0: no limit */
    bool loopback;       /* only this machine can reach the server */
    struct serve_keys keys;
    struct cli_lock folder_lock; /* lock of the --sessions folder */
    double began;

    pthread_mutex_t lock;
    pthread_cond_t wake; /* wakes the engine thread */
    struct serve_request *first, *last;
    size_t queued, unfinished;
    uint64_t buffered; /* bytes of --mem reserved for the output of streams */
    uint64_t ids;
    bool draining, stopped, ended; /* ended: the engine thread has ended */
    atomic_bool warned_unread;     /* the warning about tools that the template ignores has been printed */
    struct serve_metrics metrics;
};

/* loop.c: the engine thread. */
void *serve_loop(void *serve);

/* request.c */
struct serve_request *serve_request_new(struct serve *serve, bool chat);
void serve_request_release(struct serve_request *request); /* the caller must not hold the lock */
/* Appends the request to the queue and increments *busy. Returns false, with an error, if the server is ending or the
 * queue is full. */
bool serve_enqueue(struct serve_request *request, size_t *busy, struct serve_error *error);
/* With the lock held: frees an empty output buffer that has grown beyond SERVE_OUT_LEAST, and releases its reservation.
 */
void serve_buffer_shrink(struct serve_request *request);
/* With the lock held: ends the request with this error. A stream that has begun gets it as an event. */
void serve_request_fail(struct serve_request *request, const struct serve_error *error);
__attribute__((format(printf, 6, 7))) bool serve_refuse(struct serve_error *error, int status, const char *type,
                                                        const char *param, const char *code, const char *format, ...);
/* Refuses a request because of an error of the library. The client gets the message for a wrong argument. Other
 * messages may name files and devices, so they go to standard error. */
bool serve_refuse_by(struct serve_error *error, const char *param, const struct kvc_error *cause);
#define SERVE_INVALID "invalid_request_error"

/* prepare.c: turns a body into a request that can be computed. The request keeps no pointers into the body. On failure,
 * returns false and sets error. */
bool serve_prepare(struct serve_request *request, json_t *body, struct serve_error *error);
/* Reads the prompts of a request whose fields are read. */
bool serve_prompt_read(struct serve_request *request, struct serve_error *error);
/* lengths.c. Functions that return bool set error if they return false. */
/* Checks a policy string that the request's `field` has. */
bool serve_policy_check(const struct serve *serve, const char *spec, const char *field, unsigned *stages,
                        struct serve_error *error);
bool serve_policy_read(struct serve_request *request, struct serve_error *error);
/* Sets the maximum tokens of an answer to a prompt of `prompt` tokens, without regard to memory. */
bool serve_length_limit(struct serve_request *request, uint64_t prompt, struct serve_error *error);
/* Sets the maximum length of an answer, and `promise`, the number of tokens that memory is reserved for at its start.
 * That is the maximum length if the request sets a limit and the memory suffices; otherwise it may be less, and
 * serve_promise reserves the rest later. */
bool serve_length_check(struct serve_request *request, struct serve_error *error);
/* Forecasts a session after a prompt and `generated` tokens that it computes. */
enum kvc_status serve_estimate(const struct serve *serve, const char *spec, uint64_t prompt, uint64_t generated,
                               struct kvc_estimate *estimate, struct kvc_error *error);
/* Estimates the bytes of cache, state and hidden states that a policy needs at its peak. */
enum kvc_status serve_forecast(const struct serve *serve, const char *spec, uint64_t prompt, uint64_t generated,
                               uint64_t *bytes, struct kvc_error *error);
/* messages.c: returns the messages for the template as JSON text, to be freed with cli_json_free, or NULL if they are
 * refused. texts: a content of null becomes an empty text. */
char *serve_messages_text(const struct serve_request *request, bool texts, struct serve_error *error);
/* format.c: opens the grammar that the request's answers must match, if it has one. On failure, returns false and sets
 * error. */
bool serve_format_read(struct serve_request *request, struct serve_error *error);
/* tools.c: reads the functions that the model may call, and tool_choice. On failure, returns false and sets error. */
bool serve_tools_read(struct serve_request *request, struct serve_error *error);
/* Replaces arguments that are JSON text by their value, as templates expect them. Returns false if there is no memory.
 */
bool serve_tools_unwrap(json_t *message);
/* force.c: opens the grammar of calls that are required. On failure, returns false and sets error. */
bool serve_force(struct serve_request *request, const struct kvc_chat_options *options, struct serve_error *error);
/* begin.c: finds out from a chat's prompt how its answers begin. If the prompt opens thoughts and a grammar leaves no
 * room for them, closes them in the prompt. `variables`: the template's variables. On failure, returns false and sets
 * error. */
bool serve_begin(struct serve_request *request, const struct kvc_chat_options *options, const json_t *variables,
                 struct serve_error *error);
void serve_begin_reader(struct serve_choice *choice);
/* body.c: parses JSON within limits. On failure, returns NULL and sets error. */
json_t *serve_body(const char *text, size_t bytes, struct serve_error *error);
bool serve_body_bounded(const char *text, size_t bytes, struct serve_error *error); /* checks only the limits */
/* answer.c: the JSON of answers. */
void serve_error_json(struct serve_text *text, const struct serve_error *error);
void serve_answer_json(struct serve_text *text, const struct serve_request *request); /* writes a complete answer */
void serve_answer_chunk(struct serve_text *text, struct serve_choice *choice); /* appends events with the new text */
/* Appends an event that says that `tokens` tokens of the prompt are computed after `seconds`. */
void serve_answer_progress(struct serve_text *text, const struct serve_choice *choice, size_t tokens, double seconds);
void serve_answer_end(struct serve_text *text, const struct serve_request *request); /* appends the end of a stream */
void serve_model_json(struct serve_text *text, const struct serve *serve);

/* message.c: the message of a chat's answer. */
void serve_message_put(struct serve_text *text, const struct serve_choice *choice);
bool serve_message_news(const struct serve_choice *choice);                     /* true: a part is not sent yet */
void serve_message_delta(struct serve_text *text, struct serve_choice *choice); /* appends its next part */

/* choice.c: converts tokens to text. */
enum kvc_status serve_choice_sampler(struct serve_choice *choice, struct kvc_error *error); /* opens its sampler */
/* Gives the request's grammar to the sampler. Call it when the prompt is computed and echoed. */
enum kvc_status serve_choice_begin(struct serve_choice *choice, struct kvc_error *error);
enum kvc_status serve_choice_token(struct serve_choice *choice, int32_t token, const float *logits, bool *stopped,
                                   struct kvc_error *error);
enum kvc_status serve_choice_echo(struct serve_choice *choice, struct kvc_error *error);
bool serve_choice_record(struct serve_choice *choice, int32_t token, const float *logits);
bool serve_choice_news(struct serve_choice *choice); /* reads the new text; true: a stream can send something */
/* Reads the rest of the text. Returns why the answer ended: `why`, or "tool_calls" if it ends with a call. */
const char *serve_choice_end(struct serve_choice *choice, const char *why);
void serve_choice_free(struct serve_choice *choice);

/* held.c, for requests with return_held or return_lost */
/* Records which tokens the session holds. Call it after each token of the answer, and with last true at its end. */
void serve_held_look(struct serve_choice *choice, bool last);
/* Records which tokens the session has lost, after a chunk of the prompt. It has computed `tokens` tokens so far. */
void serve_held_chunk(struct serve_choice *choice, size_t tokens);
void serve_held_put(struct serve_text *text, struct serve_choice *choice);

/* slots.c: creates the --sessions folder if it is given and missing, and locks it against other servers. */
int serve_slots_check(struct serve *serve);

/* listen.c: checks the syntax of --cors-origin. */
int serve_origins_check(const struct serve *serve);

/* keys.c */
int serve_keys_read(const struct cli_command *command, const char *path, struct serve_keys *keys);
bool serve_key_known(const struct serve_keys *keys, const char *authorization); /* takes constant time */
void serve_keys_free(struct serve_keys *keys);

/* http.c: connection functions for the engine thread, which calls them with the lock held. */
void serve_http_resume(struct serve_request *request);
bool serve_http_closed(
    const struct serve_request *request); /* true if the client of a suspended request has disconnected */
struct serve_http;
int serve_http_open(struct serve *serve, struct serve_http **http, int *port);
void serve_http_refuse(struct serve_http *http); /* accepts no more connections */
void serve_http_close(struct serve_http *http);
/* Returns the number of exchanges whose answers are incomplete. */
size_t serve_http_busy(struct serve_http *http);

#endif
