/* identity.c - the properties that must match before a saved session can continue. They are stored as names and
 * values, so that an error can name the one that differs. */
#include "models/session/file.h"

#include "core/base/assert.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/fingerprint.h"

enum { ITEMS = 5 };
static const char *const names[ITEMS] = {"model", "arithmetic", "kv-type", "shape", "policy"};

void kvc_session_identity_free(struct kvc_session_identity *identity) {
    free(identity->policy);
    free(identity->type);
    *identity = (struct kvc_session_identity){NULL, NULL};
}

/* The values of the ITEMS properties. All except the policy are short. */
struct values {
    char text[ITEMS - 1][160];
    char *policy; /* allocated */
};

static const char *value_of(const struct values *values, size_t i) {
    return i < ITEMS - 1 ? values->text[i] : values->policy;
}

static bool find_values(struct kvc_archive *archive, struct kvc_model *model, const struct kvc_session *session,
                        struct values *values) {
    const struct kvc_model_info *info = kvc_model_info(model);
    const struct kvc_geometry *g = &session->runner->geometry;
    static const char *const math[] = {
        [KVC_MATH_FLOAT] = "float", [KVC_MATH_FAST] = "fast", [KVC_MATH_INT8] = "int8", [KVC_MATH_INT16] = "int16"};
    snprintf(values->text[0], sizeof values->text[0], "%s %016" PRIx64, info->architecture,
             kvc_model_fingerprint(model));
    snprintf(values->text[1], sizeof values->text[1], "%s %d.%d", math[info->math], KVC_ARITHMETIC_VERSION,
             info->math == KVC_MATH_INT8    ? KVC_INT8_VERSION
             : info->math == KVC_MATH_INT16 ? KVC_INT16_VERSION
                                            : 0);
    char types[KVC_ENTRY_TYPES_NAME];
    snprintf(values->text[2], sizeof values->text[2], "%s",
             kvc_entry_types_name(kvc_session_cache_type(session), types));
    snprintf(values->text[3], sizeof values->text[3], "%u layers, %u heads over %u of %u, %" PRIu64 " bytes recurrent",
             g->layers, g->heads, g->kv_heads, g->head_size, kvc_network_state_bytes(&model->network));
    values->policy = kvc_policy_text(session->policy);
    if (!values->policy)
        kvc_archive_fail(archive, KVC_RESOURCE, "no memory for the policy");
    return values->policy != NULL;
}

static void write_text(struct kvc_archive *archive, const char *text) {
    char *bytes = (char *)(uintptr_t)text; /* kvc_archive_text does not change the text when it writes an archive */
    size_t count = strlen(text);
    kvc_archive_text(archive, &bytes, &count);
}

void kvc_session_identity_write(struct kvc_archive *archive, struct kvc_model *model,
                                const struct kvc_session *session) {
    struct values values;
    char types[KVC_ENTRY_TYPES_NAME];
    if (!find_values(archive, model, session, &values))
        return;
    kvc_archive_begin(archive, KVC_SECTION_IDENTITY, 0);
    KVC_ASSERT(!archive->reads);
    write_text(archive, session->policy->spec);
    write_text(archive, kvc_entry_types_name(kvc_session_cache_type(session), types));
    for (size_t i = 0; i < ITEMS; i++)
        write_text(archive, value_of(&values, i));
    kvc_archive_end(archive, KVC_SECTION_IDENTITY, 0);
    free(values.policy);
}

void kvc_session_identity_read(struct kvc_archive *archive, struct kvc_session_identity *identity) {
    size_t bytes[2];
    *identity = (struct kvc_session_identity){NULL, NULL};
    kvc_archive_begin(archive, KVC_SECTION_IDENTITY, 0);
    kvc_archive_text(archive, &identity->policy, &bytes[0]);
    kvc_archive_text(archive, &identity->type, &bytes[1]);
    if (kvc_archive_fine(archive) && (strlen(identity->policy) != bytes[0] || strlen(identity->type) != bytes[1]))
        kvc_archive_fail(archive, KVC_INPUT, "its policy is not text");
}

void kvc_session_identity_compare(struct kvc_archive *archive, struct kvc_model *model,
                                  const struct kvc_session *session) {
    struct values values;
    if (!kvc_archive_fine(archive) || !find_values(archive, model, session, &values))
        return;
    for (size_t i = 0; i < ITEMS && kvc_archive_fine(archive); i++) {
        const char *here = value_of(&values, i);
        char *there = NULL;
        size_t bytes = 0;
        kvc_archive_text(archive, &there, &bytes);
        if (there && (bytes != strlen(here) || memcmp(there, here, bytes) != 0))
            kvc_archive_fail(archive, KVC_INPUT, "%s: it was saved with %.100s, but %.100s is in use", names[i], there,
                             here);
        free(there);
    }
    kvc_archive_end(archive, KVC_SECTION_IDENTITY, 0);
    free(values.policy);
}
