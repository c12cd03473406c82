/* test_jinja.c - the template engine: against jinja2 on short templates, on hostile templates, without memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "models/jinja/jinja.h"
#include "tests/models/text_data.h"

static enum kvc_status render(const char *source, size_t bytes, const json_t *variables, char **text,
                              struct kvc_error *error) {
    const struct kvc_jinja_job job = {
        .where = "template", .source = source, .bytes = bytes, .variables = variables, .date = "2025-06-30 14:05:09"};
    struct kvc_rendered made;
    const enum kvc_status status = kvc_jinja_render(&job, &made, error);
    *text = made.text;
    return status;
}

/* Compares templates with their expected texts; null is a refusal. Returns the number of refusals. */
static size_t compare(const json_t *templates, const json_t *variables, const json_t *texts) {
    size_t failures = 0, refusals = 0;
    assert_int_equal(json_array_size(templates), json_array_size(texts));
    for (size_t i = 0; i < json_array_size(templates); i++) {
        const json_t *source = json_array_get(templates, i);
        const char *wanted = json_string_value(json_array_get(texts, i));
        struct kvc_error error = {0};
        char *text;
        enum kvc_status status =
            render(json_string_value(source), json_string_length(source), variables, &text, &error);
        if (wanted ? status != KVC_OK || strcmp(text, wanted) != 0
                   : (status != KVC_INPUT && status != KVC_USAGE) || !error.text[0]) {
            fprintf(stderr, "%s\n  got    %s\n  wanted %s\n", json_string_value(source), text ? text : error.text,
                    wanted ? wanted : "a refusal");
            failures++;
        }
        refusals += !wanted;
        free(text);
    }
    assert_int_equal(failures, 0);
    return refusals;
}

static void test_against_jinja(void **state) {
    (void)state;
    json_t *snippets = data_json("templates/snippets.json"), *expected = data_json("templates/snippets_expected.json");
    const json_t *templates = json_object_get(snippets, "templates");
    assert_true(json_array_size(templates) > 80);
    assert_true(compare(templates, json_object_get(snippets, "variables"), json_object_get(expected, "texts")) > 20);
    json_decref(snippets);
    json_decref(expected);
}

/* Templates made by tools/fuzz_templates.py. */
static void test_fuzzed(void **state) {
    (void)state;
    json_t *all = data_json("templates/fuzzed.json");
    const json_t *templates = json_object_get(all, "templates");
    assert_true(json_array_size(templates) > 1000);
    assert_true(compare(templates, json_object_get(all, "variables"), json_object_get(all, "texts")) > 100);
    json_decref(all);
}

/* ---- malicious templates ---- */

/* The source, and a part of the error; "" where several errors are possible. */
static const struct {
    const char *source, *says;
} hostile[] = {
    {"{% for a in range(99999) %}{% for b in range(99999) %}{{ a }}{% endfor %}{% endfor %}", "too"},
    {"{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}", "too"},
    {"{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}", "too"},
    {"{% set ns = namespace(l=[1]) %}{% for i in range(99) %}{% set ns.l = ns.l + ns.l %}{% endfor %}", "too"},
    {"{% set ns = namespace(l=[1]) %}{% for i in range(99) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}",
     "too"},
    {"{% set ns = namespace(l=[1]) %}{% for i in range(99) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}"
     "{{ ns.l|tojson }}",
     "too"},
    {"{% set a = namespace(l=[1], m=[1]) %}{% for i in range(99) %}{% set a.l = [a.l, a.l] %}{% set a.m = [a.m, a.m] %}"
     "{% endfor %}{{ a.l == a.m }}",
     "too"},
    {"{% set ns = namespace(l=[1]) %}{% for i in range(5000) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}", "deep"},
    {"{% set ns = namespace(l=[1]) %}{% for i in range(5000) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l|tojson }}",
     "deep"},
    {"{% set ns = namespace(l=[1]) %}{% for i in range(5000) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l == [ns.l] }}",
     "deep"},
    {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "deep"},
    {"{% macro f(n) %}{{ f(n) ~ f(n) }}{% endmacro %}{{ f(1) }}", "deep"},
    {"{% macro f(a=f()) %}{{ a }}{% endmacro %}{{ f() }}", "deep"},
    {"{% macro f() %}{% call f() %}{{ caller() }}{% endcall %}{% endmacro %}{{ f() }}", "deep"},
    {"{{ range(100001) }}", "more than"},
    {"{{ range(9223372036854775807)|length }}", "more than"},
    {"{{ range(-9223372036854775807, 9223372036854775807, 9223372036854775807)|length * 'x' * 9999999999 }}", "too"},
    {"{{ 'x' * 9223372036854775807 }}", "too"},
    {"{{ [1] * 9223372036854775807 }}", "too"},
    {"{{ 9223372036854775807 + 1 }}", "64 bits"},
    {"{{ -9223372036854775807 - 2 }}", "64 bits"},
    {"{{ (-9223372036854775807 - 1) // -1 }}", "64 bits"},
    {"{{ -(-9223372036854775807 - 1) }}", "64 bits"},
    {"{{ 10 ** 100 }}", "64 bits"},
    {"{{ 2 ** 9223372036854775807 }}", "64 bits"},
    {"{{ 1e308 ** 2 }}", "finite"},
    {"{{ 99999999999999999999 }}", "64 bits"},
    {"{{ 1e300|int }}", "64 bits"},
    {"{{ 'a'.ljust(9223372036854775807) }}", "too"},
    {"{{ 'a'.zfill(9223372036854775807) }}", "too"},
    {"{{ 'a'|center(9223372036854775807) }}", "too"},
    {"{{ 'a\nb'|indent(9223372036854775807) }}", "too"},
    {"{{ [1]|tojson(indent=9223372036854775807) }}", "too"},
    {"{{ [1]|batch(9223372036854775807, 1)|list }}", "too"},
    {"{{ '%9999999999d' % 1 }}", "too large"},
    {"{{ '%99999999d' % 1 }}", "too much"},
    {"{{ '%.99999999f' % 1 }}", "too"},
    {"{{ '{:>99999999}'.format(1) }}", "too much"},
    {"{{ '{:{}}'.format(1, 99999999999) }}", "too large"},
    {"{{ 'aaaa'.replace('', 'x' * 9999999) * 99 }}", "too"},
    {"{{ ('x' * 99999).split('x')|length }}{% for i in range(99999) %}{{ ('x' * 99999).split('y')|length }}{% endfor "
     "%}",
     "too"},
    {"{% for i in range(99999) %}{% if 'y' in 'x' * 9999 %}{% endif %}{% endfor %}", "too"},
    /* Functions that walk over long text are counted, too. */
    {"{% set x = 'x' * 9999999 %}{% for i in range(99999) %}{{ x.isalpha() }}{% endfor %}", "too many steps"},
    {"{% set x = 'x' * 9999999 %}{% for i in range(99999) %}{{ x is upper }}{% endfor %}", "too many steps"},
    {"{% set x = 'x' * 9999999 %}{% for i in range(99999) %}{{ x.find('y') }}{% endfor %}", "too many steps"},
    {"{% set x = 'x' * 9999999 %}{% for i in range(99999) %}{{ x.count('y') }}{% endfor %}", "too many steps"},
    {"{% set x = 'x' * 9999999 %}{% for i in range(99999) %}{{ x|length }}{{ x[9999] }}{% endfor %}", "too many steps"},
    {"{% set x = 'x' * 9999999 %}{% for i in range(99999) %}{{ x.strip('y')|length }}{% endfor %}", "too many steps"},
    {"{% set x = 'x' * 9999999 %}{% for i in range(99999) %}{{ x == 'x' * 1 ~ x }}{% endfor %}", "too"},
    {"{% set x = 'x' * 9999999 %}{% set d = {x: 1} %}{% for i in range(99999) %}{{ d[x] }}{% endfor %}",
     "too many steps"},
    {"{% set x = 'x' * 9999999 %}{% for i in range(99999) %}{{ x|wordcount }}{% endfor %}", "too many steps"},
    {"a\xff", "UTF-8"},
    {"{{ '\xc3' }}", "UTF-8"},
    {"{{ '\\ud800' }}", "not a character"},
    {"{{ '\\x00' }}", "not a character"},
    {"{{ '\\xg' }}", "not a character"},
    {"{{ '\\N{DASH}' }}", "not supported"},
    {"{{", "ends within"},
    {"{%", "ends within"},
    {"{% if", "ends within"},
    {"{#", "comment"},
    {"{% raw %}{% endraw", "endraw"},
    {"{% for x in [1] %}", "endfor"},
    {"{% if 1 %}{% else %}", "endif"},
    {"{% macro f( %}", ""},
    {"{% macro f(a %}", ""},
    {"{% set x %}", "endset"},
    {"{% call f() %}", "endcall"},
    {"{% filter upper %}", "endfilter"},
    {"{% filter 3 %}{% endfilter %}", "name"},
    {"{{ ) }}", "bracket"},
    {"{{ (] }}", "bracket"},
    {"{{ [1, 2 }}", ""},
    {"{{ {1: 2, 3} }}", ""},
    {"{{ {[]: 1} }}", "key"},
    {"{{ 'a }}", "string has no end"},
    {"{{ a ? b }}", "not allowed"},
    {"{{ a.1b }}", ""},
    {"{{ a[1:2:3:4] }}", "three"},
    {"{{ f(a=1, 2) }}", "without a name"},
    {"{{ f(*[1]) }}", "not supported"},
    {"{% for 1 in [1] %}{% endfor %}", "assigned"},
    {"{% set none = 1 %}", "assigned"},
    {"{% for a, b in [[1, 2, 3]] %}{% endfor %}", "values for"},
    {"{% continue %}", "outside"},
    {"{% include 'x' %}", "no tag"},
    {"{% extends 'x' %}", "no tag"},
    {"{% endif %}", "no tag"},
    {"{{ 'x'|map('nosuch')|list }}", "no filter"},
    {"{{ [1]|select('nosuch')|list }}", "no test"},
    {"{{ x.__class__.__mro__ }}", "undefined"},
    {"{{ ''.__class__.__mro__ }}", "undefined"},
    {"{{ raise_exception.__globals__.x }}", "undefined"},
    {"{{ namespace(__x=1) }}", "letter"},
    {"{% set ns = namespace() %}{{ ns }}", "written"},
    {"{{ loop }}{{ range }}", "written"},
    {"{% for i in [1] %}{{ loop }}{% endfor %}", "written"},
    {"{{ 'a' + none }}",
     "the operator + does not take a value of type string on its left and one of type None on its "},
    {"{{ {} // 2 }}",
     "the operator // does not take a value of type dict on its left and one of type int on its right"},
    {"{{ 'abc'[1:'x'] }}", "an end of a slice is a string; it must be an int"}, /* empty text in jinja2 */
    {"{{ 'abc'[::'x'] }}", "a slice's step is a string; it must be an int"},
    {"{{ x[] }}", "where an index should be"},
    {"{{ 2 ** 62 * 2 }}", "64 bits"},
    {"{% set ns = namespace() %}{% set ns._a = 1 %}", "a namespace's names begin with a letter"},
    {"{% for i in [1] recursive %}{% endfor %}", "recursive loops are not supported"},
    {"{{ '{:z}'.format(1.5) }}", "z in a field is not supported"},
    {"{{ '{:c}'.format(65) }}", "c in a field is not supported"},
    {"{{ '%' }}{{ strftime_now('%Q') }}", "a letter after % is not supported"},
    {"{{ -'a' }}", "the operator - does not take a value of type string"},
    {"{{ +none }}", "the operator + does not take a value of type None"},
    {"{{ 1 < 'a' }}", "a value of type int and one of type string cannot be ordered"},
    {"{{ 10 ** 20 }}", "64 bits"},
    {"{{ 2 ** 65 }}", "64 bits"},
    {"{{ 9223372036854775807|round(-19) }}", "round: the number has more than 64 bits"},
    {"{{ 1.5|round(61) }}", "round: a precision of 61 is not supported"},
    {"{{ '{.real}'.format(1) }}", "format: a field begins with an attribute"},
    {"{{ '{:#}'.format(1.5) }}", "a format with # or more than"},
    {"{{ '{:010,}'.format(1234) }}", "a format with both leading zeros and a separator is not supported"},
    {"{{ '%c'|format(0) }}", "a byte 0 is not supported"},
    {"{{ {(1, 2): 3}|tojson }}", "tojson: a tuple cannot be a key"},
    {"{{ {((1, 2), 3): 4} }}", "cannot be a key"},
};

static void refused(const char *source, size_t bytes, const char *says) {
    struct kvc_error error = {0};
    char *text;
    json_t *none = json_object();
    const clock_t start = clock();
    enum kvc_status status = render(source, bytes, none, &text, &error);
    json_decref(none);
    if (status != KVC_INPUT || text || !strstr(error.text, "line ") || !strstr(error.text, says) ||
        strchr(error.text, '\n'))
        fail_msg("%.300s: status %d, %s; wanted: %s", source, status, error.text, says);
    assert_true((double)(clock() - start) / CLOCKS_PER_SEC < 60); /* far longer than any of them takes */
}

static void test_hostile(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++)
        refused(hostile[i].source, strlen(hostile[i].source), hostile[i].says);
    refused("a\0b", 3, "byte 0");
}

/* The text: begin, many times middle, then end. */
static void refused_many(const char *begin, const char *middle, size_t times, const char *end, const char *says) {
    const size_t bytes = strlen(begin) + strlen(middle) * times + strlen(end);
    char *source = malloc(bytes + 1);
    assert_non_null(source);
    char *at = source + sprintf(source, "%s", begin);
    for (size_t i = 0; i < times; i++)
        at += sprintf(at, "%s", middle);
    strcpy(at, end);
    refused(source, bytes, says);
    free(source);
}

static void test_deep(void **state) {
    (void)state;
    refused_many("{{ ", "(", 5000, " }}", "deep");
    refused_many("{{ 0.", "0", 400, " }}", "a number is not readable");
    refused_many("{{ ", "[", 100000, " }}", "deep");
    refused_many("{{ ", "{1:", 5000, " }}", "deep");
    refused_many("{{ ", "not ", 5000, "1 }}", "deep");
    refused_many("{{ ", "- ", 5000, "1 }}", "deep");
    refused_many("{{ ", "1 if 1 else ", 5000, "1 }}", "deep");
    refused_many("{{ x", ".x", 5000, " }}", "deep");
    refused_many("{{ x", "|string", 5000, " }}", "deep");
    refused_many("{{ 1", " + 1", 5000, " }}", "deep");
    refused_many("{{ 1", " and 1", 5000, " }}", "deep");
    refused_many("{{ x", "()", 5000, " }}", "deep");
    refused_many("{{ f(", "f(", 5000, " }}", "deep");
    refused_many("", "{% if 1 %}", 5000, "", "deep");
    refused_many("", "{% for i in [1] %}", 5000, "", "deep");
    refused_many("", "{% set x %}", 5000, "", "deep");
    refused_many("{% set ", "(", 5000, "", "deep");
    refused_many("{% filter upper", "|upper", 5000, "%}{% endfilter %}", "deep");
    refused_many("", "x", (1 << 20) + 1, "", "may have");
}

/* A model's special token may hold a byte 0. */
static void test_variables(void **state) {
    (void)state;
    json_t *variables = json_pack("{s: o}", "s", json_stringn("a\0b", 3));
    struct kvc_error error = {0};
    char *text;
    assert_int_equal(render("{{ s }}", 7, variables, &text, &error), KVC_INPUT);
    assert_non_null(strstr(error.text, "the template writes a byte 0"));
    for (int i = 0; i < 256; i++) {
        char name[16];
        snprintf(name, sizeof name, "v%d", i);
        json_object_set_new(variables, name, json_integer(i));
    }
    assert_int_equal(render("a", 1, variables, &text, &error), KVC_INPUT);
    assert_non_null(strstr(error.text, "257 variables; there may be 256"));
    json_decref(variables);
}

/* Values that the snippets of jinja2 do not have: functions and loops that are compared, and a caller's text that is
 * not UTF-8. */
static void test_values(void **state) {
    (void)state;
    static const char *const all[][2] = {
        {"{% for i in [1] %}{{ loop == loop }}{% endfor %}", "True"},
        {"{% macro m() %}{% endmacro %}{% macro n() %}{% endmacro %}{{ m == m }} {{ m == n }}", "True False"},
        {"{{ range == range }} {{ range == dict }} {{ s.upper == s.upper }} {{ s.upper == s.lower }}",
         "True False True False"},
        {"{{ 'nan'|int(7) }}", "7"},
        {"{{ s|upper }} {{ s|title }} {{ [s] }}", "A\377B A\377b ['a\\xffb']"},
    };
    json_t *variables = json_object();
    assert_int_equal(json_object_set_new(variables, "s", json_stringn_nocheck("a\377b", 3)), 0);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct kvc_error error = {0};
        char *text;
        if (render(all[i][0], strlen(all[i][0]), variables, &text, &error) != KVC_OK)
            fail_msg("%s: %s", all[i][0], error.text);
        assert_string_equal(text, all[i][1]);
        free(text);
    }
    json_decref(variables);
}

/* The text of raise_exception is printed on one line, without characters that could harm a terminal. */
static void test_refusal(void **state) {
    (void)state;
    static const char source[] = "\n{{ raise_exception('No \\x1b[2J\\n' ~ why) }}";
    struct kvc_error error = {0};
    char *text;
    json_t *variables = json_pack("{ss}", "why", "here");
    assert_int_equal(render(source, sizeof source - 1, variables, &text, &error), KVC_USAGE);
    assert_null(text);
    assert_string_equal(error.text, "template, line 2, refuses the conversation: No ?[2J?here");
    json_decref(variables);
}

/* Text built piece by piece is not copied each time, and earlier pieces stay unchanged. */
static void test_gathering(void **state) {
    (void)state;
    static const char source[] =
        "{% set ns = namespace(s='', old='') %}{% for i in range(20000) %}{% if i == 300 %}{% set ns.old = ns.s %}"
        "{% endif %}{% set ns.s = ns.s + part %}{% endfor %}{% set a = ns.old + 'A' %}{% set b = ns.old + 'B' %}"
        "{{ ns.s|length }} {{ ns.old|length }} {{ a[-2:] }} {{ b[-2:] }} {{ ns.s[-2:] }} {{ ns.s[29999:30002] }}";
    struct kvc_error error = {0};
    char *text;
    json_t *variables = json_pack("{ss}", "part",
                                  "0123456789012345678901234567890123456789012345678901234567890123"
                                  "456789012345678901234567890123456789");
    assert_int_equal(render(source, sizeof source - 1, variables, &text, &error), KVC_OK);
    assert_string_equal(text, "2000000 30000 9A 9B 89 901");
    free(text);
    json_decref(variables);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_jinja), cmocka_unit_test(test_fuzzed),  cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_deep),          cmocka_unit_test(test_refusal), cmocka_unit_test(test_gathering),
        cmocka_unit_test(test_variables),     cmocka_unit_test(test_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
