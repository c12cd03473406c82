/* policy.h - a parsed policy string: its methods, their options, and who holds which stage. */
#ifndef KVC_CORE_STAGE_POLICY_H
#define KVC_CORE_STAGE_POLICY_H

#include "core/engine/engine.h"

#define KVC_COLUMNS_MOST 65536u /* state per entry of any policy */

struct kvc_value {
    bool given;
    bool share; /* a budget written as a percentage: real holds it, 0..100 */
    int64_t integer;
    double real;
    char *text; /* as written, without quotes */
};

struct kvc_values {
    const struct kvc_policy_class *policy;
    struct kvc_value *value; /* [options of the class, then the common ones] */
    size_t count;
};

struct kvc_method {
    const struct kvc_policy_class *policy;
    struct kvc_values values;
    unsigned stages; /* bits it holds in this policy */
};

struct kvc_policy {
    char *spec;
    struct kvc_method *method;
    size_t count;
};

enum kvc_status kvc_policy_parse(const struct kvc_engine *engine, const char *spec, struct kvc_policy **policy,
                                 struct kvc_error *error);
void kvc_policy_free(struct kvc_policy *policy);
/* A policy with every option's value (policy_text.c), malloc'ed; NULL: no memory. */
char *kvc_policy_text(const struct kvc_policy *policy);

/* Row i of a class's options, followed by the common ones (policy_values.c). */
const struct kvc_option *kvc_policy_option(const struct kvc_policy_class *policy, size_t i);
size_t kvc_policy_options(const struct kvc_policy_class *policy);
/* Puts the method's name into the error of a check that several methods share, which knows none ("policy: ..."). */
enum kvc_status kvc_policy_named(const struct kvc_policy_class *policy, enum kvc_status status,
                                 struct kvc_error *error);
/* Reads value->text, within the option's range. */
enum kvc_status kvc_value_read(const struct kvc_policy_class *policy, const struct kvc_option *option,
                               struct kvc_value *value, struct kvc_error *error);
bool kvc_layers_are_valid(const char *text);
/* Shares out the stages; clashes are refused with both names (policy_stages.c). */
enum kvc_status kvc_policy_share(struct kvc_policy *policy, struct kvc_error *error);

/* A method's formulas. Where the class has none, or method is NULL, all functions in it are NULL. */
const struct kvc_forecast *kvc_method_forecast(const struct kvc_method *method);
/* The method holding a stage; NULL: none does. */
const struct kvc_method *kvc_policy_owner(const struct kvc_policy *policy, enum kvc_stage_kind stage);
/* Whether the rows of a session's first prompt are what `full` computes, layer by layer, so that sessions may share
 * them: no method evicts before all rows have passed a layer, and none leaves rows out of the layers above. */
bool kvc_policy_prefills_in_full(const struct kvc_policy *policy);
/* skip_layers and layers must name layers the model has. */
enum kvc_status kvc_policy_check_layers(const struct kvc_policy *policy, uint32_t layers, struct kvc_error *error);
bool kvc_method_acts(const struct kvc_method *method, uint32_t layer);
/* ---- what the methods ask of a session (methods.c) ---- */

/* Where a method acts, worked out once per session. */
struct kvc_method_use {
    bool *acts;        /* [layers] */
    uint32_t *context; /* [layers]: its number among the layers the method acts on */
    uint32_t *column;  /* [layers]: its first state column */
    uint32_t count;    /* layers it acts on */
    void *state;       /* [state_bytes], of the class; NULL: it has none */
    size_t state_bytes;
};

/* Checks the methods against the geometry and opens them: use [policy->count], to be closed with kvc_policy_close. */
enum kvc_status kvc_policy_open(const struct kvc_policy *policy, const struct kvc_geometry *geometry,
                                struct kvc_method_use **use, struct kvc_error *error);
void kvc_policy_close(const struct kvc_policy *policy, struct kvc_method_use *use);
/* Counts from 1 to 65536, KV heads dividing heads, or KVC_USAGE; `who` begins the error. */
enum kvc_status kvc_geometry_check(const struct kvc_geometry *geometry, const char *who, struct kvc_error *error);
/* What every class can say of the geometry without opening anything. */
enum kvc_status kvc_policy_check_model(const struct kvc_policy *policy, const struct kvc_geometry *geometry,
                                       struct kvc_error *error);

uint32_t kvc_policy_queries(const struct kvc_policy *policy); /* last prompt queries that any method looks at */
uint32_t kvc_policy_columns(const struct kvc_policy *policy, uint32_t layer); /* of all methods acting there */
/* The same, and those of the keys before they are rotated where a method rotates them anew: these come last. */
uint32_t kvc_policy_all_columns(const struct kvc_policy *policy, uint32_t layer, uint32_t head_size);
/* The method that rotates a layer's keys to their cache positions; NULL: none does. */
const struct kvc_method *kvc_policy_cache_positions(const struct kvc_policy *policy, uint32_t layer);
uint32_t kvc_policy_surplus(const struct kvc_policy *policy, uint32_t layer);
/* Lists of entries in a layer: the model's KV heads, or its query heads. */
uint32_t kvc_policy_heads(const struct kvc_policy *policy, uint32_t layer, const struct kvc_geometry *geometry);
/* A method and the layer it acts in; method NULL: none holds the stage there. */
struct kvc_method_layer {
    const struct kvc_method *method;
    struct kvc_layer_context context;
};
struct kvc_method_layer kvc_policy_method_at(const struct kvc_policy *policy, enum kvc_stage_kind stage, uint32_t layer,
                                             const struct kvc_geometry *geometry,
                                             const struct kvc_entry_format *format);
/* Of a layer's lists, how many keep everything whatever the others do. */
uint64_t kvc_policy_whole(const struct kvc_policy *policy, uint32_t layer, const struct kvc_geometry *geometry,
                          const struct kvc_entry_format *format);
/* Rows of the prompt that reach a layer. */
uint64_t kvc_policy_rows(const struct kvc_policy *policy, uint32_t layer, const struct kvc_geometry *geometry,
                         const struct kvc_entry_format *format, uint64_t prompt);
/* By a method's formula: entries of a list after the prompt or so many steps, of one that keeps everything (whole) or
 * of the others in the mean. */
double kvc_policy_entries(const struct kvc_method_layer *at, bool whole, uint64_t prompt, uint64_t steps);
/* By the decode method's formula: entries that a list it evicts from has within decode steps and never between them, N
 * being `held`; 0: no method says. */
uint64_t kvc_policy_step_most(const struct kvc_policy *policy, uint32_t layer, const struct kvc_geometry *geometry,
                              const struct kvc_entry_format *format, uint64_t held);
/* The layer in which the chunk stage decides what this one keeps; this one where no method chooses for it. */
uint32_t kvc_policy_decider(const struct kvc_policy *policy, uint32_t layer, const struct kvc_geometry *geometry,
                            const struct kvc_entry_format *format);
/* False where no method cuts the prompt into chunks. */
bool kvc_policy_chunking(const struct kvc_policy *policy, struct kvc_chunking *chunking);

#endif
