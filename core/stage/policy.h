/* policy.h - a parsed policy string: its methods, their options, and which method holds which stage. */
#ifndef KVC_CORE_STAGE_POLICY_H
#define KVC_CORE_STAGE_POLICY_H

#include "core/engine/engine.h"

#define KVC_COLUMNS_MOST 65536u /* maximum number of state columns per entry of a policy */

struct kvc_value {
    bool given;
    bool share; /* a budget written as a percentage: `real` is 0..100 */
    bool split; /* a budget written after "split:", as a number or a percentage */
    int64_t integer;
    double real;            /* 0 for "split:" and a number of tokens, whose share of the prompt is unknown */
    char *text;             /* the text as written, without quotes */
    struct kvc_value *each; /* [each_count]: a budget for each layer, without texts; NULL: one for all. The members
                             * above then have the smallest budget. */
    uint32_t each_count;
};

#define KVC_NO_LAYER UINT32_MAX

struct kvc_values {
    const struct kvc_policy_class *policy;
    struct kvc_value *value; /* [options of the class, then the common options] */
    size_t count;
    uint32_t layer; /* the layer whose budget is read, if each layer has its own; KVC_NO_LAYER: the smallest budget */
};

struct kvc_method {
    const struct kvc_policy_class *policy;
    struct kvc_values values;
    unsigned stages; /* bits of the stages that it holds in this policy */
};

struct kvc_policy {
    char *spec;
    struct kvc_method *method;
    size_t count;
};

enum kvc_status kvc_policy_parse(const struct kvc_engine *engine, const char *spec, struct kvc_policy **policy,
                                 struct kvc_error *error);
void kvc_policy_free(struct kvc_policy *policy);
/* Returns the policy string with the values of all options (policy_text.c). The caller frees it. Returns NULL if out of
 * memory. */
char *kvc_policy_text(const struct kvc_policy *policy);

/* Returns row i of a class's options followed by the common options (policy_values.c). */
const struct kvc_option *kvc_policy_option(const struct kvc_policy_class *policy, size_t i);
size_t kvc_policy_options(const struct kvc_policy_class *policy);
/* Adds the method's name to an error that begins with "policy: " and comes from a check that several methods share. */
enum kvc_status kvc_policy_named(const struct kvc_policy_class *policy, enum kvc_status status,
                                 struct kvc_error *error);
/* Parses value->text and checks the option's range. */
enum kvc_status kvc_value_read(const struct kvc_policy_class *policy, const struct kvc_option *option,
                               struct kvc_value *value, struct kvc_error *error);
bool kvc_layers_are_valid(const char *text);
/* Assigns the stages to the methods. A conflict is an error that names both methods (policy_stages.c). */
enum kvc_status kvc_policy_share(struct kvc_policy *policy, struct kvc_error *error);

/* Returns a method's forecast formulas. If the class has none, or method is NULL, all functions in it are NULL. */
const struct kvc_forecast *kvc_method_forecast(const struct kvc_method *method);
const char *kvc_stage_name(enum kvc_stage_kind stage);
/* Returns the method that holds a stage, or NULL. */
const struct kvc_method *kvc_policy_owner(const struct kvc_policy *policy, enum kvc_stage_kind stage);
/* Returns true if every row of a session's first prompt is computed in each layer as with `full`, so that sessions may
 * share the rows: no method evicts before all rows have passed a layer, and none prunes rows. */
bool kvc_policy_prefills_in_full(const struct kvc_policy *policy);
/* Checks that skip_layers and layers name only layers of the model, and that budgets per layer match its layers. */
enum kvc_status kvc_policy_check_layers(const struct kvc_policy *policy, uint32_t layers, struct kvc_error *error);
bool kvc_method_acts(const struct kvc_method *method, uint32_t layer);
/* Returns the method's values for one layer, with the layer's own budget if budgets differ by layer. They share the
 * method's memory. */
struct kvc_values kvc_method_values(const struct kvc_method *method, uint32_t layer);
/* ---- what the methods need from a session (methods.c) ---- */

struct kvc_predictor;

/* The layers in which a method acts; computed once per session. */
struct kvc_method_use {
    bool *acts;        /* [layers] */
    uint32_t *context; /* [layers]: the layer's index among the layers in which the method acts */
    uint32_t *column;  /* [layers]: the method's first state column in the layer */
    uint32_t count;    /* number of layers in which it acts */
    void *state;       /* [state_bytes]: the method's state, defined by its class; NULL: none */
    size_t state_bytes;
    struct kvc_predictor *predictor; /* predicts the method's scores (core/engine/predictor.h); NULL: none */
};

/* Checks the methods against the geometry and opens them. *use [policy->count] must be closed with kvc_policy_close. */
enum kvc_status kvc_policy_open(const struct kvc_policy *policy, const struct kvc_geometry *geometry,
                                struct kvc_method_use **use, struct kvc_error *error);
void kvc_policy_close(const struct kvc_policy *policy, struct kvc_method_use *use);
/* Checks that all counts are 1 to 65536 and that KV heads divide heads; otherwise returns KVC_USAGE. `who` begins the
 * error. */
enum kvc_status kvc_geometry_check(const struct kvc_geometry *geometry, const char *who, struct kvc_error *error);
/* Checks the policy and its methods against the geometry, without opening anything. */
enum kvc_status kvc_policy_check_model(const struct kvc_policy *policy, const struct kvc_geometry *geometry,
                                       struct kvc_error *error);

/* Checks that no method reads single channels of keys if the keys' type mixes channels. */
enum kvc_status kvc_policy_check_types(const struct kvc_policy *policy, struct kvc_entry_types types,
                                       struct kvc_error *error);

/* Returns true if a session subtracts the mean of its first keys from all keys (core/engine/centre.h). It does so if
 * the keys' type is rotated and no method reads whole keys or rotates them again. */
bool kvc_policy_centres(const struct kvc_policy *policy, struct kvc_entry_types types);

/* Returns the maximum number of a prompt's last queries that a method reads. */
uint32_t kvc_policy_queries(const struct kvc_policy *policy);
/* Returns the number of columns of all methods that act in the layer. */
uint32_t kvc_policy_columns(const struct kvc_policy *policy, uint32_t layer);
/* Returns the number of state columns of one method in a layer. */
uint32_t kvc_method_columns(const struct kvc_method *method, uint32_t layer);
/* Also counts the columns of the unrotated keys, if a method uses cache positions. The columns of the keys come last.
 */
uint32_t kvc_policy_all_columns(const struct kvc_policy *policy, uint32_t layer, uint32_t head_size);
/* Returns the method that rotates a layer's keys to their cache positions, or NULL. */
const struct kvc_method *kvc_policy_cache_positions(const struct kvc_policy *policy, uint32_t layer);
/* Returns true if a method merges values in the layer before entries are evicted. */
bool kvc_policy_merges(const struct kvc_policy *policy, uint32_t layer);
uint32_t kvc_policy_surplus(const struct kvc_policy *policy, uint32_t layer);
/* Returns the number of lists of entries in a layer: one per KV head, or one per query head. */
uint32_t kvc_policy_heads(const struct kvc_policy *policy, uint32_t layer, const struct kvc_geometry *geometry);
/* A method and the layer in which it acts; method NULL: no method holds the stage there. */
struct kvc_method_layer {
    const struct kvc_method *method;
    struct kvc_values values; /* of the method in this layer */
    struct kvc_layer_context context;
};
struct kvc_method_layer kvc_policy_method_at(const struct kvc_policy *policy, enum kvc_stage_kind stage, uint32_t layer,
                                             const struct kvc_geometry *geometry,
                                             const struct kvc_entry_format *format);
/* Returns how many of a layer's lists keep every entry, even if the other lists lose entries. */
uint64_t kvc_policy_whole(const struct kvc_policy *policy, uint32_t layer, const struct kvc_geometry *geometry,
                          const struct kvc_entry_format *format);
/* Returns how many rows of a prompt reach a layer. */
uint64_t kvc_policy_rows(const struct kvc_policy *policy, uint32_t layer, const struct kvc_geometry *geometry,
                         const struct kvc_entry_format *format, uint64_t prompt);
/* Returns how many entries a list holds after the prompt (steps 0) or after `steps` steps, by the method's formula. If
 * `whole` is true, the list is one that keeps everything. Otherwise the result is the mean of the other lists. */
double kvc_policy_entries(const struct kvc_method_layer *at, bool whole, uint64_t prompt, uint64_t steps);
/* Returns the length that a list reaches within a decode step before the step evicts from it. The decode method's
 * formula computes it, with `held` in place of the prompt's length. Returns 0 if no method gives a formula. */
uint64_t kvc_policy_step_most(const struct kvc_policy *policy, uint32_t layer, const struct kvc_geometry *geometry,
                              const struct kvc_entry_format *format, uint64_t held);
/* Returns the layer whose chunk stage chooses what this layer keeps. The result is this layer itself unless the method
 * chooses for other layers. */
uint32_t kvc_policy_decider(const struct kvc_policy *policy, uint32_t layer, const struct kvc_geometry *geometry,
                            const struct kvc_entry_format *format);
/* Returns false if no method cuts the prompt into chunks. */
bool kvc_policy_chunking(const struct kvc_policy *policy, struct kvc_chunking *chunking);

#endif
