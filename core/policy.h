/* policy.h - a parsed policy string: its methods, their options, and who holds which stage. */
#ifndef KVC_CORE_POLICY_H
#define KVC_CORE_POLICY_H

#include "core/engine.h"

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

/* The method holding a stage; NULL: none does. */
const struct kvc_method *kvc_policy_holder(const struct kvc_policy *policy, enum kvc_stage_kind stage);
/* skip_layers and layers must name layers the model has. */
enum kvc_status kvc_policy_check_layers(const struct kvc_policy *policy, uint32_t layers, struct kvc_error *error);
bool kvc_method_acts(const struct kvc_method *method, uint32_t layer);
/* The most over the policy's methods that act on the layer. */
uint32_t kvc_policy_queries(const struct kvc_policy *policy);
uint32_t kvc_policy_columns(const struct kvc_policy *policy, uint32_t layer);
uint32_t kvc_policy_surplus(const struct kvc_policy *policy, uint32_t layer);

#endif
