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
    SERVE_DEPTH_MOST = 64,       /* largest nesting of arrays and objects in a body */
    SERVE_VALUES_MOST = 1 << 20, /* largest number of values in a body */
    SERVE_CHOICES_MOST = 128,    /* largest number of answers of a request: prompts times `n` */
    SERVE_STOPS_MOST = 16,       /* largest number of stop texts of a request */
    SERVE_BIASES_MOST = 1024,    /* largest number of tokens in a logit_bias */
    SERVE_TOP_MOST = 20,         /* largest value of top_logprobs */
    SERVE_STEP = 256,            /* the reservation of an answer without a length limit grows by this number of
                                  * tokens */
    SERVE_UPLOAD_SECONDS = 60,   /* time limit for receiving a body */
    SERVE_BODIES_MOST = 16,      /* limit for the bodies of all clients together, as a multiple of the largest body */
    SERVE_OUT_LEAST = 64 << 10,  /* bytes reserved for the unread output of a stream */
    SERVE_OUT_MOST = 64 << 20    /* unread bytes at which a stream is closed */
};

/* ---- one request ---- */

struct serve_tokens {
    int32_t *items;
    size_t count;
};

struct serve_record { /* the probabilities of one token */
    int32_t token;
    bool known; /* false for a prompt's first token, because no logits precede it */
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
    struct kvc_hash *hash;       /* hash of all logits from which tokens were chosen; NULL unless requested */
    uint64_t reserved;           /* bytes reserved for this answer */
    uint64_t promised;           /* tokens of the answer that `reserved` covers */
    bool goes_on;                /* true if it continues a session of an earlier turn */
    size_t seen, cached;         /* number of prompt tokens in the session: now (`seen`), and when the answer began
                                  * (`cached`) */
    size_t share_at; /* number of prompt tokens after which a copy is cached for other prompts; 0: no copy */
    bool waited;     /* true if it had to wait for memory or for room in the batch */
    bool looked;     /* true if prefixes shared with other prompts have been searched for */
    int32_t pending; /* the last token, which the session has not computed yet */
    struct serve_tokens answer;
    size_t capacity;              /* capacity of `answer` in tokens */
    struct serve_record *records; /* [record_count]: the tokens of the echoed prompt, then those of the answer */
    size_t record_count, record_capacity, records_sent, tokens_sent;
    struct serve_text text;
    size_t text_ready, text_sent; /* number of bytes that are final (text_ready), and that are sent (text_sent) */
    size_t echoed, offset;        /* `echoed`: bytes of the echoed prompt; `offset`: characters of the records sent */
    struct serve_reader reader;   /* for a chat: splits the first text_ready bytes of the text into parts */
    bool first;                   /* true if the text is empty so far */
    bool said;                    /* true if a stream's first chunk, which has the role, has been sent */
    const char *finish;           /* "stop", "length" or "tool_calls" */
    unsigned char *held;          /* [held_count]: for each token, the percentage of lists that hold it */
    size_t held_count;
    uint32_t *lost; /* [lost_count]: 0, or how many tokens were computed when no list held this token any more */
    char *cells;    /* [layers, lost_count + 1]: for each layer a text that tells for each token how many of the layer's
                     * lists hold it */
    size_t lost_count;
    bool held_news; /* true if `held` has changed since it was last sent */
    struct kvc_session_stats stats;
    size_t progress;     /* percentage of the prompt that return_progress has reported, plus 1; 0: nothing yet */
    double prompt_began; /* time at which the first chunk of its prompt was computed */
    uint64_t turn;       /* number of the turn in which a chunk of its prompt was last computed, or in which it was
                          * admitted */
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
    struct serve_values values; /* after preparation, JSON pointers are NULL, except `stop`, which holds a reference */
    struct kvc_bias *biases;    /* [bias_count] */
    size_t bias_count;
    struct kvc_grammar *grammar;    /* grammar of the answers; NULL: any text */
    json_t *functions;              /* functions that the model may call (tools.c); NULL: none */
    bool forced, named;             /* `forced`: the answers must be calls; `named`: all calls must be of one
                                     * function */
    bool channels, thoughts, wordy; /* settings of the answers' readers */
    const char *opening;            /* text that the answers' readers read first; NULL: none */
    char *spec;                     /* policy string */
    unsigned stages;                /* stages of the policy */
    struct serve_tokens *prompts;
    size_t prompt_count;
    struct serve_choice *choices;
    size_t choice_count;
    uint64_t limit;   /* maximum tokens of an answer */
    uint64_t promise; /* number of answer tokens for which memory is reserved at the start; at most `limit` */
    bool logprobs;
    size_t top;     /* number of alternatives at each token */
    bool abandoned; /* true if the request failed or its client disconnected; only the engine thread uses it */

    /* the lock of `serve` protects the members from here on */
    int references;
    enum serve_state state;
    struct serve_error error; /* valid in state SERVE_FAILED */
    bool gone;                /* true if the client has disconnected */
    struct serve_text out;    /* unread output of a stream */
    size_t out_taken;
    uint64_t buffered; /* bytes of --mem reserved for `out` */
    bool out_over;
    size_t choices_over;
    uint64_t tokens_out;    /* tokens of all answers so far */
    uint64_t cached_tokens; /* number of prompt tokens that cached sessions held, over all prompts */
    double first_token;     /* seconds from the request's arrival to its first answer token */
    void *connection;       /* a struct MHD_Connection * */
    int descriptor;         /* the connection's socket */
    bool suspended;
    struct serve_request *next; /* the next request in the queue or, later, in the engine thread's list */
};

/* ---- the server ---- */

struct serve_keys {
    char (*key)[256]; /* [count]: keys, padded with zeros */
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
    bool loopback;       /* true if only this machine can reach the server */
    struct serve_keys keys;
    struct cli_lock folder_lock; /* lock of the --sessions folder */
    double began;

    pthread_mutex_t lock;
    pthread_cond_t wake; /* wakes the engine thread */
    struct serve_request *first, *last;
    size_t queued, unfinished;
    uint64_t buffered; /* bytes of --mem reserved for the output of streams */
    uint64_t ids;
    bool draining, stopped, ended; /* `ended`: the engine thread has ended */
    atomic_bool warned_unread;     /* true if the warning about tools that the template ignores has been printed */
    struct serve_metrics metrics;
};

/* loop.c: the engine thread. */
void *serve_loop(void *serve);

/* request.c */
struct serve_request *serve_request_new(struct serve *serve, bool chat);
void serve_request_release(struct serve_request *request); /* the caller must not hold the lock */
/* Appends the request to the queue and increments *busy. If the server is ending or the queue is full, returns false
 * and sets the error. */
bool serve_enqueue(struct serve_request *request, size_t *busy, struct serve_error *error);
/* Frees a stream's output buffer if it is empty and has grown beyond SERVE_OUT_LEAST, and releases its reservation. The
 * caller holds the lock. */
void serve_buffer_shrink(struct serve_request *request);
/* Ends the request with this error. A stream that has begun sends the error as an event. The caller holds the lock. */
void serve_request_fail(struct serve_request *request, const struct serve_error *error);
__attribute__((format(printf, 6, 7))) bool serve_refuse(struct serve_error *error, int status, const char *type,
                                                        const char *param, const char *code, const char *format, ...);
/* Refuses a request because of an error of the library. If an argument was wrong, the client gets the message. Other
 * messages may name files and devices, so they go to standard error. */
bool serve_refuse_by(struct serve_error *error, const char *param, const struct kvc_error *cause);
#define SERVE_INVALID "invalid_request_error"

/* prepare.c: turns a body into a request that can be computed. The request keeps no pointers into the body. On failure,
 * returns false and sets error. */
bool serve_prepare(struct serve_request *request, json_t *body, struct serve_error *error);
/* Reads the prompts of a request whose fields have been read. */
bool serve_prompt_read(struct serve_request *request, struct serve_error *error);
/* lengths.c. Functions that return bool set `error` if they return false. */
/* Checks a policy string. `field` is the request's field that has it. */
bool serve_policy_check(const struct serve *serve, const char *spec, const char *field, unsigned *stages,
                        struct serve_error *error);
bool serve_policy_read(struct serve_request *request, struct serve_error *error);
/* Sets the maximum number of tokens of an answer to a prompt of `prompt` tokens. Ignores memory. */
bool serve_length_limit(struct serve_request *request, uint64_t prompt, struct serve_error *error);
/* Sets the maximum length of an answer, and `promise`, the number of tokens for which memory is reserved at its start.
 * If the request sets a limit and the memory suffices, `promise` is the maximum length. Otherwise `promise` may be
 * less, and serve_promise reserves the rest later. */
bool serve_length_check(struct serve_request *request, struct serve_error *error);
/* Forecasts a session after a prompt and `generated` tokens that it computes. */
enum kvc_status serve_estimate(const struct serve *serve, const char *spec, uint64_t prompt, uint64_t generated,
                               struct kvc_estimate *estimate, struct kvc_error *error);
/* Estimates the bytes of cache, state and hidden states that a policy holds at its peak. */
enum kvc_status serve_forecast(const struct serve *serve, const char *spec, uint64_t prompt, uint64_t generated,
                               uint64_t *bytes, struct kvc_error *error);
/* messages.c: returns the messages as JSON text for the template, to be freed with cli_json_free, or NULL if they are
 * refused. If `texts` is true, a content of null becomes an empty text. */
char *serve_messages_text(const struct serve_request *request, bool texts, struct serve_error *error);
/* format.c: opens the grammar that the request's answers must match, if the request has one. On failure, returns false
 * and sets error. */
bool serve_format_read(struct serve_request *request, struct serve_error *error);
/* tools.c: reads the functions that the model may call, and tool_choice. On failure, returns false and sets error. */
bool serve_tools_read(struct serve_request *request, struct serve_error *error);
/* Replaces arguments that are JSON text by the value of that text, which templates expect. Returns false if memory runs
 * out. */
bool serve_tools_unwrap(json_t *message);
/* force.c: opens the grammar of the calls that the request requires. On failure, returns false and sets error. */
bool serve_force(struct serve_request *request, const struct kvc_chat_options *options, struct serve_error *error);
/* begin.c: finds out from the prompt of a chat how its answers begin. If the prompt opens thoughts and the grammar
 * allows none, closes them in the prompt. `variables` are the template's variables. On failure, returns false and sets
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
void serve_message_delta(struct serve_text *text, struct serve_choice *choice); /* appends the next part */

/* choice.c: converts tokens to text. */
enum kvc_status serve_choice_sampler(struct serve_choice *choice, struct kvc_error *error); /* opens its sampler */
/* Gives the request's grammar to the sampler. Call it when the prompt is computed and echoed. */
enum kvc_status serve_choice_begin(struct serve_choice *choice, struct kvc_error *error);
enum kvc_status serve_choice_token(struct serve_choice *choice, int32_t token, const float *logits, bool *stopped,
                                   struct kvc_error *error);
enum kvc_status serve_choice_echo(struct serve_choice *choice, struct kvc_error *error);
bool serve_choice_record(struct serve_choice *choice, int32_t token, const float *logits);
bool serve_choice_news(struct serve_choice *choice); /* reads the new text; true: a stream can send something */
/* Reads the rest of the text. Returns why the answer ended: `why` or, if it ends with a call, "tool_calls". */
const char *serve_choice_end(struct serve_choice *choice, const char *why);
void serve_choice_free(struct serve_choice *choice);

/* held.c, for requests with return_held or return_lost */
/* Records which tokens the session holds. Call it after each token of the answer, and with `last` set at its end. */
void serve_held_look(struct serve_choice *choice, bool last);
/* Records which tokens the session has lost. Call it after a chunk of the prompt, when the session has computed
 * `tokens` tokens. */
void serve_held_chunk(struct serve_choice *choice, size_t tokens);
void serve_held_put(struct serve_text *text, struct serve_choice *choice);

/* slots.c: if --sessions is given, creates the folder if it is missing, and locks it against other servers. */
int serve_slots_check(struct serve *serve);

/* listen.c: checks the syntax of --cors-origin. */
int serve_origins_check(const struct serve *serve);

/* keys.c */
int serve_keys_read(const struct cli_command *command, const char *path, struct serve_keys *keys);
bool serve_key_known(const struct serve_keys *keys, const char *authorization); /* takes the same time for every key */
void serve_keys_free(struct serve_keys *keys);

/* http.c: functions for connections. The caller of the first two functions holds the lock. */
void serve_http_resume(struct serve_request *request);
bool serve_http_closed(
    const struct serve_request *request); /* returns true if the client of a suspended request has disconnected */
struct serve_http;
int serve_http_open(struct serve *serve, struct serve_http **http, int *port);
void serve_http_refuse(struct serve_http *http); /* stops accepting connections */
void serve_http_close(struct serve_http *http);
/* Returns the number of exchanges whose answers are incomplete. */
size_t serve_http_busy(struct serve_http *http);

#endif
