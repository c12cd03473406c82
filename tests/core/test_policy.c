/* test_policy.c - the grammar of policy strings: accepted strings, the error messages of refused ones, and the method
 * of each stage (rules 7 and 8 of docs/reference/methods.md, the table of stages). */
#include "core/stage/policy.h"
#include "tests/method_spec.h"

#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Policies can be parsed without a device. */
static struct kvc_engine engine;

static void refused(const char *spec, const char *const *words) {
    struct kvc_error error = {KVC_OK, ""};
    const enum kvc_status status = kvc_policy_check(&engine, spec, &error);
    if (status != KVC_USAGE)
        fail_msg("'%s' gives status %d", spec, (int)status);
    assert_null(strchr(error.text, '\n'));
    for (; *words; words++) {
        if (!strstr(error.text, *words))
            fail_msg("'%s': \"%s\" does not say \"%s\"", spec, error.text, *words);
    }
}
#define REFUSED(spec, ...) refused(spec, (const char *const[]){__VA_ARGS__, NULL})

static struct kvc_policy *accepted(const char *spec) {
    struct kvc_error error = {KVC_OK, ""};
    struct kvc_policy *policy = NULL;
    if (kvc_policy_parse(&engine, spec, &policy, &error) != KVC_OK)
        fail_msg("'%s': %s", spec, error.text);
    return policy;
}

static const char *owner(const struct kvc_policy *policy, enum kvc_stage_kind stage) {
    const struct kvc_method *method = kvc_policy_owner(policy, stage);
    return method ? method->policy->name : "";
}

static void test_values(void **state) {
    (void)state;
    struct kvc_policy *policy = accepted("morphkv:budget=600,fusion=max,every=8,scores=logits,skip_layers=2");
    const struct kvc_values *values = &policy->method[0].values;
    assert_int_equal(kvc_value_int(values, "budget"), 600);
    assert_int_equal(kvc_value_budget(values, "budget", 10, 33), 600);
    assert_string_equal(kvc_value_text(values, "fusion"), "max");
    assert_int_equal(kvc_value_int(values, "every"), 8);
    assert_int_equal(kvc_value_int(values, "window"), 32);
    assert_true(kvc_value_given(values, "every"));
    assert_false(kvc_value_given(values, "window"));
    assert_false(kvc_method_acts(&policy->method[0], 1));
    assert_true(kvc_method_acts(&policy->method[0], 2));
    kvc_policy_free(policy);
    policy = accepted("snapkv:budget=12.5%");
    values = &policy->method[0].values;
    assert_true(kvc_value_is_share(values, "budget"));
    assert_int_equal(kvc_value_budget(values, "budget", 1000, 33), 125);
    assert_int_equal(kvc_value_budget(values, "budget", 1004, 33), 126); /* 125.5: halves up */
    assert_int_equal(kvc_value_budget(values, "budget", 100, 33), 33);   /* at least w + 1 */
    kvc_policy_free(policy);
    policy = accepted("snapkv:budget=\"64\",layers=\"0-2/5/7-7\"");
    for (uint32_t l = 0; l < 9; l++)
        assert_int_equal(kvc_method_acts(&policy->method[0], l), l < 3 || l == 5 || l == 7);
    kvc_policy_free(policy);
    kvc_policy_free(accepted("full"));
    policy = accepted("duo:file=every-other,threshold=-1.5e+03,recent=5e+2+quest:budget=64"); /* '+' within a number */
    assert_int_equal(policy->count, 2);
    values = &policy->method[0].values;
    assert_int_equal(kvc_value_int(values, "recent"), 500);
    assert_true(kvc_value_real(values, "threshold") == -1500);
    kvc_policy_free(policy);
}

/* A host program may have set a locale that writes 0,32. */
static void test_locale(void **state) {
    static const char *const commas[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "fr_FR.utf8", "de_DE"};
    size_t i = 0;
    (void)state;
    while (i < sizeof commas / sizeof *commas && !setlocale(LC_NUMERIC, commas[i]))
        i++;
    if (i == sizeof commas / sizeof *commas) {
        print_message("no locale with decimal commas is installed\n");
        skip();
    }
    struct kvc_policy *policy = accepted("duo:file=every-other,threshold=0.32");
    assert_true(kvc_value_real(&policy->method[0].values, "threshold") == 0.32);
    kvc_policy_free(policy);
    setlocale(LC_NUMERIC, "C");
}

static void test_ranges(void **state) {
    (void)state;
    REFUSED("snapkv:budget=32", "budget=32", "window=32");
    REFUSED("snapkv:budget=8,window=9", "budget=8", "window=9");
    kvc_policy_free(accepted("snapkv:budget=33"));
    REFUSED("morphkv:budget=32", "budget=32", "window=32");
    REFUSED("streaming:budget=4", "budget=4", "sinks=4");
    kvc_policy_free(accepted("streaming:budget=5"));
    REFUSED("window:budget=0", "budget=0", "1");
    REFUSED("window:budget=-5", "budget=-5", "1");
    REFUSED("window:budget=x", "budget=x", "whole number", "10%");
    REFUSED("window:budget=", "budget=");
    REFUSED("window:budget=1.5", "budget=1.5");
    REFUSED("window:budget=nan", "budget=nan");
    REFUSED("window:budget=inf", "budget=inf");
    REFUSED("window:budget=0x10", "budget=0x10");
    REFUSED("window:budget= 5", "budget= 5");
    REFUSED("window:budget=1e99", "budget=1e99");
    REFUSED("window:budget=2147483648", "2147483647");
    REFUSED("window:budget=99999999999999999999999999999999999999999999999999999999999999999999", "budget=");
    REFUSED("window:budget=0%", "budget=0%", "100%");
    REFUSED("window:budget=101%", "budget=101%");
    REFUSED("window:budget=%", "budget=%");
    REFUSED("window:budget=-1%", "budget=-1%");
    REFUSED("snapkv:budget=64/32/64", "budget=32", "window=32");
    REFUSED("snapkv:budget=64/", "budget=64/", "for each layer");
    REFUSED("snapkv:budget=/64", "budget=/64", "for each layer");
    REFUSED("snapkv:budget=64/1.5", "budget=64/1.5", "for each layer");
    REFUSED("snapkv:budget=64/10%", "budget=64/10%", "for each a share");
    REFUSED("snapkv:budget=10%/101%", "budget=10%/101%", "for each a share");
    REFUSED("snapkv:budget=2147483648/64", "budget=2147483648/64", "for each layer");
    REFUSED("cake:budget=64/64", "budget=64/64", "one budget");
    REFUSED("pyramidkv:budget=64/64", "budget=64/64", "one budget");
    REFUSED("take:budget=64,warmup_budget=64/64", "warmup_budget=64/64", "whole number");
    REFUSED("snapkv:budget=64,kernel=4", "kernel=4", "odd");
    REFUSED("snapkv:budget=64,kernel=0", "kernel=0");
    REFUSED("snapkv:budget=64,window=0", "window=0");
    REFUSED("snapkv:budget=64,pooling=sum", "pooling=sum", "max|avg");
    REFUSED("snapkv:budget=64,pooling=ma", "pooling=ma");
    REFUSED("snapkv:budget=64,per=layer", "per=layer", "group|head");
    REFUSED("pyramidkv:budget=32", "budget=32", "window=32");
    REFUSED("pyramidkv:budget=64,kernel=8", "kernel=8", "odd");
    REFUSED("pyramidkv:budget=64,beta=0", "beta=0", "1000");
    REFUSED("pyramidkv:budget=64,beta=1.5", "beta=1.5", "whole");
    REFUSED("adakv:budget=9,window=9", "budget=9", "window=9");
    REFUSED("adakv:budget=64,floor=1.01", "floor=1.01", "0 to 1");
    REFUSED("adakv:budget=64,floor=-0.1", "floor=-0.1");
    REFUSED("scissorhands:budget=64,recent=64", "recent=64", "1 to 63");
    REFUSED("scissorhands:budget=64,recent=0", "recent=0", "half");
    REFUSED("scissorhands:budget=64,recent=-1", "recent=-1");
    REFUSED("scissorhands:budget=10%,recent=all", "recent=all", "2147483647");
    REFUSED("scissorhands:budget=64,history=0", "history=0", "4096");
    REFUSED("knorm:budget=8,recent=8", "budget=8", "recent=8");
    REFUSED("lagkv:budget=259", "budget=259", "260", "sinks=4", "lag=128");
    kvc_policy_free(accepted("lagkv:budget=260"));
    REFUSED("lagkv:budget=300,scoring=all", "scoring=all", "within|across");
    REFUSED("chunkkv:budget=32", "budget=32", "window=32");
    REFUSED("chunkkv:budget=32,window=0", "window=0", "scorer=snapkv");
    REFUSED("chunkkv:budget=64,scorer=h2o", "scorer=h2o", "knorm");
    REFUSED("snapkv-decode:budget=64,kernel=2", "kernel=2", "odd");
    REFUSED("snapkv-decode:budget=32", "budget=32", "window=32");
    REFUSED("rkv:budget=8", "budget=8", "window=8");
    REFUSED("rkv:budget=64,kernel=4", "kernel=4", "odd");
    REFUSED("triattention:budget=4", "stats", "missing");
    REFUSED("triattention:budget=4,stats=drawn,recent=4", "budget=4", "recent=4");
    REFUSED("expected:budget=4", "budget=4", "sinks=4");
    REFUSED("expected:budget=64,covariance=yes", "covariance=yes", "on|off");
    REFUSED("criticalkv:budget=32", "budget=32", "window=32");
    REFUSED("criticalkv:budget=36,scorer=expected", "budget=36", "36", "window=32");
    REFUSED("criticalkv:budget=64,window=0", "window=0", "scorer=snapkv");
    REFUSED("compactor:budget=12", "budget=12", "12", "sinks=8", "recent=4");
    kvc_policy_free(accepted("compactor:budget=13"));
    REFUSED("noncausal:budget=12", "budget=12", "12", "sinks=8", "recent=4");
    REFUSED("cur:budget=4", "budget=4", "sinks=4");
    REFUSED("cur:budget=9,by=both", "by=both", "product|mean|keys|values");
    REFUSED("finch:budget=32", "budget=32", "window=32");
    REFUSED("finch:budget=64,normalize=no", "normalize=no", "on|off");
    REFUSED("lacache:budget=128", "budget=128", "sinks=128");
    REFUSED("lacache:budget=200,span=4,overlap=4", "overlap=4", "0 to 3");
    REFUSED("lacache:budget=200,span=0", "span=0");
    REFUSED("chunkkv:budget=64,chunk=8,gate=8", "gate=8", "below chunk=8");
    REFUSED("kvcompose:budget=4,least=5", "least=5", "1 to 4, the budget");
    REFUSED("duo", "file", "missing");
    REFUSED("duo:file=x,threshold=0.5,sparsity=0.5", "sparsity=0.5", "threshold=0.5");
    REFUSED("morphkv:budget=64,every=0", "every=0");
    REFUSED("take:budget=10%,warmup_budget=9.5%", "warmup_budget=9.5%", "budget=10%", "100%");
    REFUSED("morphkv:budget=64,fusion=mean", "fusion=mean", "sum|max");
    REFUSED("morphkv:budget=64,skip_layers=-1", "skip_layers=-1");
    REFUSED("quest:budget=64,page=x", "page=x", "auto", "whole number");
    REFUSED("rocketkv:budget=64,split=1.1", "split=1.1", "auto", "0 to 1");
    REFUSED("snapkv:budget=split:64+hsa:budget=split:65", "split:64", "split:65", "the same for both");
    REFUSED("snapkv:budget=split:64", "split:64", "of a prompt method and of a select method");
    REFUSED("sparq", "dims", "missing");
    REFUSED("sparq:dims=4", "topk", "missing");
    REFUSED("sparq:budget=8,topk=9", "topk=9", "budget=8");
    REFUSED("sparq:budget=8,local=5", "local=5", "0 to topk, which is 4");
    REFUSED("hsa", "budget", "missing");
    REFUSED("hsa:budget=40,ratio=4", "exclude each other");
    REFUSED("hsa:page=4,dims=4", "topk", "missing");
    REFUSED("dapq:budget=64,content=file", "go together");
    REFUSED("dapq:budget=64,file=x", "go together");
    REFUSED("dapq:budget=64,content=ends,pseudo=3,head=4", "head=4", "pseudo=3");
}

/* ---- numeric options: the smallest and the largest number are accepted, the next one outside is refused ---- */

#define MILLION "1048576"
#define MOST "2147483647"
#define HUGE_SEED "9007199254740992"
static const struct {
    const char *method, *option, *low, *below, *high, *above;
    const char *with, *with_high; /* further options that the spec needs; with_high NULL: the same as `with`; "-": the
                                     largest number never fits */
} limits[] = {
#include "tests/core/policy_limits.def"
};

static void limit_spec(char *spec, size_t capacity, size_t i, const char *value, const char *with) {
    snprintf(spec, capacity, "%s:%s=%s%s%s", limits[i].method, limits[i].option, value, *with ? "," : "", with);
}

static void test_limits(void **state) {
    (void)state;
    const size_t count = sizeof limits / sizeof *limits;
    char spec[200], method[40], value[80];
    for (size_t i = 0; i < count; i++) {
        const char *with_high = limits[i].with_high ? limits[i].with_high : limits[i].with;
        const char *shown = strcmp(limits[i].option, "kernel") ? limits[i].high : MILLION;
        limit_spec(spec, sizeof spec, i, limits[i].low, limits[i].with);
        kvc_policy_free(accepted(spec));
        if (strcmp(with_high, "-")) {
            limit_spec(spec, sizeof spec, i, limits[i].high, with_high);
            kvc_policy_free(accepted(spec));
        }
        snprintf(method, sizeof method, "policy %s: ", limits[i].method);
        for (int side = 0; side < 2; side++) {
            const char *beyond = side ? limits[i].above : limits[i].below;
            limit_spec(spec, sizeof spec, i, beyond, limits[i].with);
            snprintf(value, sizeof value, "%s=%s: must be ", limits[i].option, beyond);
            if (side)
                REFUSED(spec, method, value, shown);
            else
                REFUSED(spec, method, value);
        }
    }
    for (size_t m = 0; kvc_policy_list[m]; m++) /* no option is missing in the table */
        for (const struct kvc_option *o = kvc_policy_list[m]->options; o->name; o++) {
            bool found = o->kind == KVC_OPTION_TEXT || o->kind == KVC_OPTION_CHOICE;
            for (size_t i = 0; i < count && !found; i++)
                found = !strcmp(limits[i].method, kvc_policy_list[m]->name) && !strcmp(limits[i].option, o->name);
            if (!found)
                fail_msg("no limits are tried of %s of %s", o->name, kvc_policy_list[m]->name);
        }
}

static void test_grammar(void **state) {
    (void)state;
    REFUSED("", "name");
    REFUSED("+", "name");
    REFUSED("full+", "name");
    REFUSED("full++full", "name");
    REFUSED(":budget=5", "name");
    REFUSED("nosuch", "nosuch", "info methods");
    REFUSED("snapk", "snapk");
    REFUSED("snapkv", "budget", "missing");
    REFUSED("snapkv:", "option=value");
    REFUSED("snapkv:budget", "option=value");
    REFUSED("snapkv:budget=64,", "option=value");
    REFUSED("snapkv:=64", "option=value");
    REFUSED("snapkv:nosuch=1", "nosuch", "budget", "window");
    REFUSED("snapkv:budget=64,budget=65", "budget", "twice");
    REFUSED("snapkv:budget=\"64", "quote");
    REFUSED("snapkv:budget=\"64\"5", "quote");
    REFUSED("snapkv:budget=64,layers=", "layers");
    static const char *const bad_layers[] = {"a", "3-1", "1/", "/1", "1-", "-1", "1//2", "1,2", "99999999999999999999"};
    for (size_t i = 0; i < sizeof bad_layers / sizeof *bad_layers; i++) {
        char spec[80];
        snprintf(spec, sizeof spec, "snapkv:budget=64,layers=\"%s\"", bad_layers[i]);
        REFUSED(spec, "layers");
    }
    char *longest = malloc(100000);
    assert_non_null(longest);
    memset(longest, 'a', 99999);
    longest[99999] = 0;
    REFUSED(longest, "characters");
    memset(longest, '+', 60000);
    longest[60000] = 0;
    REFUSED(longest, "name");
    free(longest);
}

static void test_stages(void **state) {
    (void)state;
    const struct {
        const char *spec, *prompt, *decode;
    } pairs[] = {{"full", "", ""},
                 {"snapkv:budget=64", "snapkv", ""},
                 {"morphkv:budget=64", "morphkv", "morphkv"},
                 {"morphkv:budget=64,stages=prompt", "morphkv", ""},
                 {"morphkv:budget=64,stages=decode", "", "morphkv"},
                 {"snapkv:budget=64+morphkv:budget=64", "snapkv", "morphkv"},
                 {"morphkv:budget=64+snapkv:budget=64", "snapkv", "morphkv"},
                 {"streaming:budget=64,stages=prompt+morphkv:budget=64", "streaming", "morphkv"},
                 {"streaming:budget=64,stages=decode+morphkv:budget=64", "morphkv", "streaming"},
                 {"window:budget=9,stages=decode+streaming:budget=9,stages=prompt", "streaming", "window"},
                 {"fastkv:budget=64+morphkv:budget=64", "fastkv", "morphkv"},
                 {"h2o:budget=64+fastkv:budget=64", "fastkv", "h2o"},
                 {"h2o:budget=64,stages=prompt+fastkv:budget=64", "h2o", ""},
                 {"dapq:budget=64+fastkv:budget=64", "dapq", ""}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        struct kvc_policy *policy = accepted(pairs[i].spec);
        assert_string_equal(owner(policy, KVC_STAGE_PROMPT), pairs[i].prompt);
        assert_string_equal(owner(policy, KVC_STAGE_DECODE), pairs[i].decode);
        kvc_policy_free(policy);
    }
    REFUSED("streaming:budget=64+morphkv:budget=64", "streaming", "morphkv", "prompt");
    REFUSED("snapkv:budget=64+snapkv:budget=65", "snapkv", "prompt");
    REFUSED("snapkv:budget=64+streaming:budget=64,stages=prompt", "snapkv", "streaming", "prompt");
    REFUSED("snapkv:budget=64+streaming:budget=64+morphkv:budget=64", "streaming", "morphkv", "decode");
    REFUSED("window:budget=9,stages=decode+morphkv:budget=64,stages=decode", "window", "morphkv", "decode");
    REFUSED("snapkv:budget=64+window:budget=9,stages=decode+morphkv:budget=64", "morphkv", "no stage");
    REFUSED("snapkv:budget=64,stages=decode", "snapkv", "stages=decode");
    REFUSED("fastkv:budget=64+fastkv:budget=65", "fastkv", "prompt");
    REFUSED("h2o:budget=64+keyformer:budget=65", "h2o", "keyformer", "prompt");
    REFUSED("take:budget=64+fastkv:budget=64", "take", "fastkv", "chunks");
    REFUSED("snapkv:budget=64,stages=both2", "stages=both2");
}

/* ---- every pair of methods, against a table that follows "Stages and composition" in docs/reference/methods.md ----
 */

enum pair_kind { NONE, PROMPT, BOTH, PROPAGATE, CHUNK, SELECT, ROCKET, DECODE, KINDS };
static const unsigned kind_stages[KINDS] = {[PROMPT] = KVC_STAGE_PROMPT,
                                            [BOTH] = KVC_STAGE_PROMPT | KVC_STAGE_DECODE,
                                            [PROPAGATE] = KVC_STAGE_PROMPT | KVC_STAGE_PROPAGATE,
                                            [CHUNK] = KVC_STAGE_CHUNK,
                                            [SELECT] = KVC_STAGE_SELECT,
                                            [ROCKET] = KVC_STAGE_PROMPT | KVC_STAGE_SELECT,
                                            [DECODE] = KVC_STAGE_DECODE};

static enum pair_kind kind_of(const struct kvc_policy_class *policy) {
    for (int kind = 0; kind < KINDS; kind++)
        if (kind_stages[kind] == policy->stages)
            return (enum pair_kind)kind;
    fail_msg("%s: the table of pairs has no row for its stages, %u", policy->name, policy->stages);
    return NONE;
}

/* '+': may be joined; '-': refused with a message that names both. The columns are in the order of the rows. */
/* clang-format off */
static const char pair_table[KINDS][KINDS + 1] = {
    [NONE]      = "++++++++",
    [PROMPT]    = "+-++++-+",
    [BOTH]      = "++-+++++",
    [PROPAGATE] = "+++--+++",
    [CHUNK]     = "+++--+++",
    [SELECT]    = "+++++--+",
    [ROCKET]    = "+-+++--+",
    [DECODE]    = "+++++++-"};
/* clang-format on */

static void test_pairs(void **state) {
    (void)state;
    for (size_t a = 0; kvc_policy_list[a]; a++) {
        const enum pair_kind kind = kind_of(kvc_policy_list[a]);
        char one[100], other[100], spec[260];
        kvc_test_method_spec(kvc_policy_list[a], 64, one, sizeof one);
        for (size_t b = 0; kvc_policy_list[b]; b++) {
            kvc_test_method_spec(kvc_policy_list[b], 64, other, sizeof other);
            snprintf(spec, sizeof spec, "%s+%s", one, other);
            if (pair_table[kind][kind_of(kvc_policy_list[b])] == '+')
                kvc_policy_free(accepted(spec));
            else
                REFUSED(spec, kvc_policy_list[a]->name, kvc_policy_list[b]->name, "left out");
        }
        /* changing positions allow no other method that evicts or changes keys */
        snprintf(spec, sizeof spec, "lacache:budget=200,positions=cache,stages=decode+%s", one);
        if ((kind == NONE && !kvc_policy_list[a]->zeroes) || kind == SELECT)
            kvc_policy_free(accepted(spec));
        else
            REFUSED(spec, "lacache", kvc_policy_list[a]->name);
    }
}

/* Random bytes give an error line or a policy, never a crash. */
static void test_noise(void **state) {
    (void)state;
    static const char *const parts[] = {
        "snapkv",   "morphkv",       ":",    "budget=",   "64",  ",", "+", "=", "\"", "%", "layers=", "0-3/8", "/", "-",
        "window=5", "stages=decode", "\x80", "streaming", "full"};
    uint64_t random = 12345;
    for (int i = 0; i < 20000; i++) {
        char spec[256] = "";
        random = random * 6364136223846793005u + 1442695040888963407u;
        const unsigned n = (unsigned)(random >> 60);
        for (unsigned p = 0; p < n; p++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            strcat(spec, parts[(random >> 33) % (sizeof parts / sizeof *parts)]);
        }
        struct kvc_error error = {KVC_OK, ""};
        const enum kvc_status status = kvc_policy_check(&engine, spec, &error);
        assert_true(status == KVC_OK || status == KVC_USAGE);
        assert_true(status == KVC_OK || (error.text[0] && !strchr(error.text, '\n')));
    }
}

/* Every built-in class has everything that the tables and the manual need. */
static void test_classes(void **state) {
    (void)state;
    for (size_t i = 0; kvc_policy_list[i]; i++) {
        const struct kvc_policy_class *p = kvc_policy_list[i];
        assert_true(p->summary && p->paper && p->idea && p->formula && p->memory && p->traffic && p->second_turn &&
                    p->differences);
        assert_int_equal(!!(p->stages & KVC_STAGE_PROMPT), !!p->prompt);
        assert_int_equal(!!(p->stages & KVC_STAGE_DECODE), !!p->decode);
        for (const struct kvc_option *o = p->options; o->name; o++) {
            assert_non_null(o->help);
            assert_true(o->kind != KVC_OPTION_CHOICE || o->choices);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values), cmocka_unit_test(test_locale),  cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_limits), cmocka_unit_test(test_grammar), cmocka_unit_test(test_stages),
        cmocka_unit_test(test_pairs),  cmocka_unit_test(test_noise),   cmocka_unit_test(test_classes)};
    while (kvc_policy_list[engine.policy_count])
        engine.policy_count++;
    engine.policies = malloc((engine.policy_count + 1) * sizeof *engine.policies);
    if (!engine.policies)
        return 4;
    memcpy(engine.policies, kvc_policy_list, (engine.policy_count + 1) * sizeof *engine.policies);
    const int status = cmocka_run_group_tests(tests, NULL, NULL);
    free(engine.policies);
    return status;
}
