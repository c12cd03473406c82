/* engine.c - opens a backend and keeps the list of known policies. */
#include "core/base/assert.h"
#include "core/engine/open_device.h"
#include "core/engine/trace.h"
#include "core/ranks/direct.h"

#include <stdlib.h>
#include <string.h>

/* Makes the other ranks open the engine, too. */
static enum kvc_status broadcast_open(const struct kvc_engine *engine, const struct kvc_engine_options *options,
                                      struct kvc_error *error) {
    struct kvc_packet *packet = kvc_call_begin(engine->ranks, KVC_CALL_ENGINE_OPEN);
    if (packet) {
        kvc_packet_put_pointer(packet, engine);
        kvc_packet_put_text(packet, options->backend);
        kvc_packet_put_number(packet, (uint64_t)options->threads);
        kvc_packet_put_number(packet, options->math);
        kvc_packet_put_text(packet, options->trace);
        kvc_packet_put_text(packet, options->trace_values);
        kvc_call_broadcast(engine->ranks);
    }
    return kvc_call_end(engine->ranks, KVC_OK, error);
}

/* Broadcasts a call whose only argument is the engine. */
static void engine_broadcast(const struct kvc_engine *engine, enum kvc_call call) {
    struct kvc_packet *packet = kvc_call_begin(engine->ranks, call);
    if (packet) {
        kvc_packet_put_pointer(packet, engine);
        kvc_call_broadcast(engine->ranks);
    }
}

enum { TEAMS = 2 };

/* Returns the link of the ranks that share layers (i = 0) or form a pipeline (i = 1), or NULL if there are none. */
static struct kvc_link *team_of(const struct kvc_ranks *ranks, size_t i) {
    return i == 0 ? ranks->rows.link : ranks->stages.link;
}

/* Connects the devices of the ranks, so that rows may travel directly between them. */
static void attach(struct kvc_engine *engine) {
    for (size_t i = 0; i < TEAMS && engine->ranks; i++) {
        struct kvc_link *link = team_of(engine->ranks, i);
        if (link && link->count > 1 && engine->ranks->attach)
            engine->ranks->attach(link, engine->device);
    }
}

enum kvc_status kvc_engine_open(const struct kvc_engine_options *options, struct kvc_engine **engine,
                                struct kvc_error *error) {
    const struct kvc_engine_options defaults = {0};
    *engine = NULL;
    if (!options)
        options = &defaults;
    if (options->threads < 0 || options->threads > 1024)
        return kvc_fail(error, KVC_USAGE, "threads=%d: must be 0 (one per core) to 1024", options->threads);
    if ((unsigned)options->math > KVC_MATH_INT16)
        return kvc_fail(error, KVC_USAGE,
                        "math=%u: must be KVC_MATH_FLOAT, KVC_MATH_INT8, KVC_MATH_INT16 or KVC_MATH_FAST",
                        (unsigned)options->math);
    struct kvc_log log = {.rank = -1};
    if (kvc_log_read("KVCULL_LOG", getenv("KVCULL_LOG"), &log, error) != KVC_OK)
        return KVC_USAGE;
    struct kvc_engine *made = calloc(1, sizeof *made);
    if (!made)
        return kvc_fail(error, KVC_RESOURCE, "engine: no memory for %zu bytes", sizeof *made);
    made->log = log;
    while (kvc_policy_list[made->policy_count])
        made->policy_count++;
    made->policies = malloc((made->policy_count + 1) * sizeof *made->policies);
    if (!made->policies) {
        free(made);
        return kvc_fail(error, KVC_RESOURCE, "engine: no memory for the list of policies");
    }
    memcpy(made->policies, kvc_policy_list, (made->policy_count + 1) * sizeof *made->policies);
    enum kvc_status status =
        kvc_open_device(options->backend ? options->backend : "cpu", options, &made->device, error);
    if (status == KVC_OK && options->trace)
        status = kvc_trace_open(made, options, options->ranks ? options->ranks->link->rank : 0, error);
    if (status != KVC_OK) {
        kvc_engine_close(made);
        return status;
    }
    made->device->log = &made->log;
    KVC_ASSERT(made->device->ops && made->device->ops->name);
    made->math = options->math;
    made->ranks = kvc_ranks_several(options->ranks) ? options->ranks : NULL;
    if (made->ranks)
        made->log.rank = made->ranks->link->rank;
    *engine = made;
    const enum kvc_status everywhere = broadcast_open(made, options, error);
    attach(made);
    kvc_log_engine(made);
    return everywhere;
}

void kvc_engine_close(struct kvc_engine *engine) {
    if (!engine)
        return;
    engine_broadcast(engine, KVC_CALL_ENGINE_CLOSE);
    (void)kvc_call_end(engine->ranks, KVC_OK, NULL);
    for (size_t i = 0; i < TEAMS && engine->ranks; i++)
        if (team_of(engine->ranks, i))
            kvc_direct_close(team_of(engine->ranks, i), engine->device);
    if (engine->device)
        engine->device->ops->close(engine->device);
    free(engine->policies);
    free(engine);
}

/* Adds up the memory of all ranks. */
void kvc_engine_memory(const struct kvc_engine *engine, struct kvc_memory *memory) {
    struct kvc_ranks *ranks = engine->ranks;
    *memory = engine->device->memory;
    if (!ranks)
        return;
    engine_broadcast(engine, KVC_CALL_MEMORY);
    kvc_ranks_add(ranks, (uint64_t *)memory, sizeof *memory / sizeof(uint64_t));
    (void)kvc_call_end(ranks, KVC_OK, NULL);
}

void kvc_engine_reset_peaks(struct kvc_engine *engine) {
    struct kvc_memory *memory = &engine->device->memory;
    engine_broadcast(engine, KVC_CALL_RESET_PEAKS);
    memcpy(memory->peak, memory->now, sizeof memory->peak);
    memory->peak_total = memory->now_total;
    (void)kvc_call_end(engine->ranks, KVC_OK, NULL);
}

const char *kvc_engine_backend(const struct kvc_engine *engine) { return engine->device->name; }

enum kvc_status kvc_engine_on_interrupt(struct kvc_engine *engine, kvc_interrupt_fn *interrupt, void *user,
                                        struct kvc_error *error) {
    struct kvc_packet *packet = kvc_call_begin(engine->ranks, KVC_CALL_ON_INTERRUPT);
    if (packet) {
        kvc_packet_put_pointer(packet, engine);
        kvc_packet_put_number(packet, interrupt != NULL);
        kvc_call_broadcast(engine->ranks);
    }
    engine->interrupt = interrupt;
    engine->interrupt_user = user;
    return kvc_call_end(engine->ranks, KVC_OK, error);
}

const char *kvc_version(void) { return KVC_VERSION; }

const struct kvc_policy_class *kvc_engine_find_policy(const struct kvc_engine *engine, const char *name,
                                                      size_t length) {
    for (size_t i = 0; i < engine->policy_count; i++) {
        const char *known = engine->policies[i]->name;
        if (strlen(known) == length && !memcmp(known, name, length))
            return engine->policies[i];
    }
    return NULL;
}

/* Checks that an option table meets the requirements of the parser and the manual. */
static enum kvc_status check_options(const struct kvc_policy_class *policy, struct kvc_error *error) {
    const struct kvc_option *common = kvc_common_options();
    for (const struct kvc_option *o = policy->options; o && o->name; o++) {
        if (!o->name[0] || strpbrk(o->name, ":,+=/\" "))
            return kvc_fail(error, KVC_USAGE, "policy '%s': an option's name is letters, digits and '_'", policy->name);
        if ((unsigned)o->kind > KVC_OPTION_TEXT)
            return kvc_fail(error, KVC_USAGE, "policy '%s': option '%s' has the unknown kind %u", policy->name, o->name,
                            (unsigned)o->kind);
        if (!o->help || (o->kind == KVC_OPTION_CHOICE && !o->choices))
            return kvc_fail(error, KVC_USAGE, "policy '%s': option '%s' has no help or no choices", policy->name,
                            o->name);
        for (size_t i = 0; common[i].name; i++) {
            if (!strcmp(common[i].name, o->name))
                return kvc_fail(error, KVC_USAGE, "policy '%s': every method already has an option '%s'", policy->name,
                                o->name);
        }
        for (const struct kvc_option *other = policy->options; other != o; other++) {
            if (!strcmp(other->name, o->name))
                return kvc_fail(error, KVC_USAGE, "policy '%s': two options '%s'", policy->name, o->name);
        }
    }
    return KVC_OK;
}

enum kvc_status kvc_engine_register(struct kvc_engine *engine, const struct kvc_policy_class *policy,
                                    struct kvc_error *error) {
    if (!policy->name || !policy->name[0] || strpbrk(policy->name, ":,+=/\" "))
        return kvc_fail(error, KVC_USAGE, "policy: a name is letters, digits, '-' and '_'");
    if (engine->ranks)
        return kvc_fail(error, KVC_USAGE, "policy '%s': cannot be registered: the engine has several processes",
                        policy->name);
    if (kvc_engine_find_policy(engine, policy->name, strlen(policy->name)))
        return kvc_fail(error, KVC_USAGE, "policy '%s' is registered already", policy->name);
    if (policy->forecast && (unsigned)policy->forecast->ragged > KVC_RAGGED_ANY)
        return kvc_fail(error, KVC_USAGE, "policy '%s': ragged %u: must be a value of enum kvc_ragged", policy->name,
                        (unsigned)policy->forecast->ragged);
    const unsigned functions = (policy->chunk && policy->chunking ? (unsigned)KVC_STAGE_CHUNK : 0u) |
                               (policy->prompt ? (unsigned)KVC_STAGE_PROMPT : 0u) |
                               (policy->propagate ? (unsigned)KVC_STAGE_PROPAGATE : 0u) |
                               (policy->select || policy->sizes ? (unsigned)KVC_STAGE_SELECT : 0u) |
                               (policy->decode ? (unsigned)KVC_STAGE_DECODE : 0u);
    if (policy->stages & ~functions)
        return kvc_fail(error, KVC_USAGE, "policy '%s' names a stage it has no function for", policy->name);
    const enum kvc_status status = check_options(policy, error);
    if (status != KVC_OK)
        return status;
    const struct kvc_policy_class **grown =
        realloc(engine->policies, (engine->policy_count + 2) * sizeof *engine->policies);
    if (!grown)
        return kvc_fail(error, KVC_RESOURCE, "policy '%s': no memory for the list", policy->name);
    engine->policies = grown;
    grown[engine->policy_count++] = policy;
    grown[engine->policy_count] = NULL;
    KVC_ASSERT(kvc_engine_find_policy(engine, policy->name, strlen(policy->name)) == policy);
    return KVC_OK;
}

const struct kvc_policy_class *kvc_policy(const struct kvc_engine *engine, size_t i) {
    return i < engine->policy_count ? engine->policies[i] : NULL;
}
