/* serve.h - the server: what its files share. HTTP threads take requests apart and write answers (http.c, route.c,
 * prepare.c); one engine thread computes them all (loop.c). Between them is a queue and one lock.
 *
 * The server uses the library through its public headers, and the program's helpers (cli/cli.h).
 */
#ifndef KVC_SERVE_SERVE_H
#define KVC_SERVE_SERVE_H

#include <pthread.h>
#include <stdatomic.h>

#include "cli/cli.h"
#include "kvcull/policy.h"
#include "serve/fields.h"
#include "serve/metrics.h"
#include "serve/options.h"
#include "serve/text.h"

/* What a request can do no harm beyond, whatever the options say. */
enum {
    SERVE_DEPTH_MOST = 64,       /* nested arrays and objects of a body */
    SERVE_VALUES_MOST = 1 << 20, /* values of a body */
    SERVE_CHOICES_MOST = 128,    /* answers of a request: prompts times n */
    SERVE_STOPS_MOST = 16,       /* stop texts of a request */
    SERVE_BIASES_MOST = 1024,    /* tokens in a logit_bias */
    SERVE_TOP_MOST = 20,         /* top_logprobs */
    SERVE_STEP = 256,            /* tokens that an answer without a limit is promised memory for, again and again */
    SERVE_UPLOAD_SECONDS = 60,   /* within which a body must have come */
    SERVE_BODIES_MOST = 16,      /* bodies of the largest size, of all clients together */
    SERVE_OUT_LEAST = 64 << 10,  /* bytes promised to a stream for what its client has not taken */
    SERVE_OUT_MOST = 64 << 20    /* beyond which its client does not read */
};

/* ---- one request ---- */

struct serve_tokens {
    int32_t *items;
    size_t count;
};

struct serve_record { /* the probabilities at one token */
    int32_t token;
    bool known; /* false: of a prompt's first token, before which there is nothing */
    float logprob;
    struct kvc_logprob *best; /* [request->top] or NULL */
};

enum serve_stage { SERVE_WAITS, SERVE_PROMPT, SERVE_DECODES, SERVE_OVER };

struct serve_request;

struct serve_choice { /* one answer; the engine thread's alone until its request is over */
    struct serve_request *request;
    uint32_t index;
    const struct serve_tokens *prompt;
    enum serve_stage stage;
    struct kvc_session *session;
    struct kvc_sampler *sampler; /* while it has a session; it is as large as the vocabulary */
    struct kvc_hash *hash;       /* of all logits that tokens were chosen from; NULL: not asked for */
    uint64_t reserved;           /* bytes promised to it */
    uint64_t promised;           /* tokens of its answer that these are for */
    bool goes_on;                /* with a session that an earlier turn left */
    size_t seen, cached;         /* prompt tokens that the session has; that it had when the answer began */
    size_t share_at;             /* prompt tokens after which a copy is kept for others; 0: none */
    bool looked;                 /* for what others have of its prompt */
    int32_t pending;             /* the last token, which the session has not seen */
    struct serve_tokens answer;
    size_t capacity;              /* of answer and of records, in tokens */
    struct serve_record *records; /* [record_count]: of the echoed prompt, then of the answer */
    size_t record_count, record_capacity, records_sent, tokens_sent;
    struct serve_text text;
    size_t text_sent, echoed,
        offset;          /* bytes of it that clients have, that are the prompt; characters of records sent */
    bool first;          /* nothing precedes the text */
    bool said;           /* a stream has named the role */
    const char *finish;  /* "stop", "length" */
    unsigned char *held; /* [held_count]: of each token, the share of lists that hold it, in percent */
    size_t held_count;
    bool held_news; /* clients have not been told */
    struct kvc_session_stats stats;
    uint64_t turn; /* when a piece of its prompt was computed last, or it was admitted */
};

enum serve_state { SERVE_QUEUED, SERVE_RUNS, SERVE_DONE, SERVE_FAILED };

struct serve_error {  /* as OpenAI's error objects */
    int status;       /* of HTTP */
    const char *type; /* "invalid_request_error" */
    const char *code; /* or NULL */
    char param[64];   /* the field, or "" */
    char text[400];
    int retry_after; /* seconds; 0: not said */
};

struct serve;

struct serve_request {
    /* set before it is queued, then only read */
    struct serve *serve;
    uint64_t id;
    int64_t created;
    double arrived;
    bool chat;
    struct serve_values values; /* of its JSON only stop is left, a reference of its own */
    struct kvc_bias *biases;    /* [bias_count] */
    size_t bias_count;
    char *spec;      /* its policy */
    unsigned stages; /* of the policy */
    struct serve_tokens *prompts;
    size_t prompt_count;
    struct serve_choice *choices;
    size_t choice_count;
    uint64_t limit;   /* tokens of an answer */
    uint64_t promise; /* of them, those that an answer has memory for when it begins */
    bool logprobs;
    size_t top;     /* alternatives at each token */
    bool abandoned; /* the engine thread's alone: it has failed or its client has gone */

    /* shared: serve->lock */
    int references;
    enum serve_state state;
    struct serve_error error; /* of SERVE_FAILED */
    bool gone;                /* its client */
    struct serve_text out;    /* of a stream */
    size_t out_taken;
    uint64_t buffered; /* bytes of --mem that are out's */
    bool out_over;
    size_t choices_over;
    uint64_t tokens_out; /* of all its answers so far */
    double first_token;  /* seconds after its arrival */
    void *connection;    /* http.c's */
    int descriptor;      /* of the connection */
    bool suspended;
    struct serve_request *next; /* in the queue; then in the engine thread's list */
};

/* ---- the server ---- */

struct serve_keys {
    char (*key)[256]; /* [count], padded by zeros */
    size_t count;
};

struct serve {
    const struct cli_command *command;
    const struct serve_options *options;
    struct kvc_engine *engine;
    struct kvc_model *model;
    const struct kvc_model_info *info;
    char name[128];      /* of the model, as clients see it */
    char *template_text; /* of --chat-template-file, or NULL */
    uint64_t memory;     /* bytes that sessions may hold */
    uint64_t context;    /* tokens that a session may see; 0: no limit */
    bool loopback;       /* nothing but this machine reaches it */
    struct serve_keys keys;
    struct cli_lock folder_lock; /* of --sessions */
    double began;

    pthread_mutex_t lock;
    pthread_cond_t wake; /* of the engine thread */
    struct serve_request *first, *last;
    size_t queued, unfinished;
    uint64_t buffered; /* bytes of --mem that streams' texts have */
    uint64_t ids;
    bool draining, stopped, ended; /* ended: the engine thread is */
    atomic_bool warned_unread;     /* of tools that the template does not read */
    struct serve_metrics metrics;
};

/* loop.c: the engine thread. */
void *serve_loop(void *serve);

/* request.c */
struct serve_request *serve_request_new(struct serve *serve, bool chat);
void serve_request_release(struct serve_request *request); /* lock held by nobody */
/* Puts it in the queue and counts it in *busy, or says why not. */
bool serve_enqueue(struct serve_request *request, size_t *busy, struct serve_error *error);
/* With the lock held: a stream whose client has taken all of it has no more than what it was promised. */
void serve_buffer_shrink(struct serve_request *request);
/* With the lock held: the request ends so, or its stream does. */
void serve_request_fail(struct serve_request *request, const struct serve_error *error);
__attribute__((format(printf, 6, 7))) bool serve_refuse(struct serve_error *error, int status, const char *type,
                                                        const char *param, const char *code, const char *format, ...);
#define SERVE_INVALID "invalid_request_error"

/* prepare.c: from a body to a request that can be computed, which needs nothing of the body any more. False: error says
 * why not. */
bool serve_prepare(struct serve_request *request, json_t *body, struct serve_error *error);
/* body.c: JSON with bounds. NULL: refused. */
json_t *serve_body(const char *text, size_t bytes, struct serve_error *error);
/* What a policy may need for so many tokens: bytes of cache, state and hidden states. */
enum kvc_status serve_forecast(const struct serve *serve, const char *spec, uint64_t prompt, uint64_t generated,
                               uint64_t *bytes, struct kvc_error *error);

/* answer.c: what clients read. */
void serve_error_json(struct serve_text *text, const struct serve_error *error);
void serve_answer_json(struct serve_text *text, const struct serve_request *request); /* a whole one */
/* What a choice has that has not been sent, up to `until` bytes of its text; also when it has finished. */
void serve_answer_chunk(struct serve_text *text, struct serve_choice *choice, size_t until);
void serve_answer_end(struct serve_text *text, const struct serve_request *request); /* of a stream */
void serve_model_json(struct serve_text *text, const struct serve *serve);

/* choice.c: tokens become text. */
enum kvc_status serve_choice_sampler(struct serve_choice *choice, struct kvc_error *error); /* opens its sampler */
enum kvc_status serve_choice_token(struct serve_choice *choice, int32_t token, const float *logits, bool *stopped,
                                   struct kvc_error *error);
enum kvc_status serve_choice_echo(struct serve_choice *choice, struct kvc_error *error);
bool serve_choice_record(struct serve_choice *choice, int32_t token, const float *logits);
size_t serve_choice_ready(const struct serve_choice *choice); /* bytes of text that may be sent */
void serve_choice_free(struct serve_choice *choice);

/* held.c, for requests with return_held */
void serve_held_look(struct serve_choice *choice); /* at what the session holds now */
void serve_held_put(struct serve_text *text, struct serve_choice *choice);

/* slots.c: makes the folder for kept sessions, where one is given, and locks it: no other server is to use it. */
int serve_slots_check(struct serve *serve);

/* listen.c: whether --cors-origin has origins. */
int serve_origins_check(const struct serve *serve);

/* keys.c */
int serve_keys_read(const struct cli_command *command, const char *path, struct serve_keys *keys);
bool serve_key_known(const struct serve_keys *keys, const char *authorization); /* in constant time */
void serve_keys_free(struct serve_keys *keys);

/* http.c: what the engine thread needs of connections. With the lock held. */
void serve_http_resume(struct serve_request *request);
bool serve_http_closed(const struct serve_request *request); /* of a suspended one: its client has gone */
struct serve_http;
int serve_http_open(struct serve *serve, struct serve_http **http, int *port);
void serve_http_refuse(struct serve_http *http); /* no more connections */
void serve_http_close(struct serve_http *http);
/* How many exchanges are under way. */
size_t serve_http_busy(struct serve_http *http);

#endif
