/* test_gbnf.c - grammars in llama.cpp's format: compares texts with grammars, and checks refusals. test_gbnf_drawn.c
 * has random ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "kvcull/grammar.h"
#include "tests/check.h"

static const char json[] = "# a JSON value without blanks at its ends\n"
                           "root   ::= value\n"
                           "value  ::= object | array | string | number | \"true\" | \"false\" | \"null\"\n"
                           "object ::= \"{\" ws ( member (ws \",\" ws member)* )? ws \"}\"\n"
                           "member ::= string ws \":\" ws value\n"
                           "array  ::= \"[\" ws ( value (ws \",\" ws value)* )? ws \"]\"\n"
                           "string ::= \"\\\"\" (\n"
                           "    [^\"\\\\\\x00-\\x1F] |            # a character\n"
                           "    \"\\\\\" ([\"\\\\/bfnrt] | \"u\" [0-9a-fA-F]{4})\n"
                           "  )* \"\\\"\"\n"
                           "number ::= \"-\"? (\"0\" | [1-9] [0-9]*) (\".\" [0-9]+)? ([eE] [-+]? [0-9]+)?\n"
                           "ws ::= [ \\t\\n\\r]*";
static const char list[] = "root ::= entry+\r\n"
                           "# one line\r\n"
                           "entry ::= \"- \" [^\\r\\n]+ \"\\n\"\r\n";
static const char arithmetic[] = "root  ::= (sum \"=\" blank term \"\\n\")+\n"
                                 "sum   ::= term ([-+*/] blank term)*\n"
                                 "term  ::= name | number | \"(\" blank sum \")\" blank\n"
                                 "name  ::= [a-z] [a-z0-9_]* blank\n"
                                 "number::= [0-9]+ blank\n"
                                 "blank ::= [ \\t\\n]*\n";
static const char chess[] = "root ::= (\n"
                            "    # the first pair of moves\n"
                            "    \"1. \" move \" \" move \"\\n\"\n"
                            "\n"
                            "    ([1-9] [0-9]? \". \" move \" \" move \"\\n\")+\n"
                            ")\n"
                            "move ::= (pawn | piece | castle) [+#]?\n"
                            "piece ::= [NBKQR] [a-h]? [1-8]? \"x\"? [a-h] [1-8]\n"
                            "pawn ::= ([a-h] \"x\")? [a-h] [1-8] (\"=\" [NBKQR])?\n"
                            "castle ::= \"O-O\" \"-O\"?\n";

static struct kvc_grammar *open_grammar(const char *text) {
    struct kvc_grammar *grammar;
    struct kvc_error error;
    FINE(kvc_grammar_open(KVC_GRAMMAR_GBNF, text, strlen(text), &grammar, &error));
    return grammar;
}

static enum kvc_grammar_match check(const struct kvc_grammar *grammar, const char *text, size_t bytes) {
    enum kvc_grammar_match match;
    struct kvc_error error;
    FINE(kvc_grammar_check(grammar, text, bytes, &match, &error));
    return match;
}

/* Compares each beginning of a text with what is expected of it, a character for each: '.' for the beginning of a text
 * of the grammar, '!' for a text of it. The text leaves the grammar at the first byte that has no character. */
static void follow(const char *grammar_text, const char *text, const char *expected) {
    struct kvc_grammar *grammar = open_grammar(grammar_text);
    const size_t good = strlen(expected);
    assert_true(good >= 1 && good <= strlen(text) + 1);
    for (size_t bytes = 0; bytes <= strlen(text); bytes++) {
        const enum kvc_grammar_match wanted = bytes >= good            ? KVC_GRAMMAR_WRONG
                                              : expected[bytes] == '!' ? KVC_GRAMMAR_WHOLE
                                                                       : KVC_GRAMMAR_BEGUN;
        if (check(grammar, text, bytes) != wanted)
            fail_msg("%s\n\"%.*s\": %d, not %d", grammar_text, (int)bytes, text, check(grammar, text, bytes), wanted);
    }
    kvc_grammar_close(grammar);
}

static void test_json(void **state) {
    (void)state;
    follow(json, "{\"a\": [1, -2.5e3, \"\\u00e9\\n\"], \"b\": {}}", ".......................................!");
    follow(json, "1203", ".!!!!");
    follow(json, "-0.5e1", "..!.!.!");
    follow(json, "01", ".!");
    follow(json, "[1,]", "....");
    follow(json, "\"a\nb\"", "...");
    follow(json, "nulx", "....");
    follow(json, "[[[[]]]]x", "........!");
    follow(json, "\"\xc3\xa9\xf0\x9f\x98\x80\"", "........!");
}

static void test_samples(void **state) {
    (void)state;
    follow(list, "- a\n- b c\nx", "....!.....!");
    follow(list, "-  \n-\n", "....!.");
    follow(arithmetic, "a1*(2+ b)=c\n", "............!");
    follow(arithmetic, "a = 7\n\nb+(", "......!!...");
    follow(arithmetic, "(a=", "...");
    follow(chess, "1. e4 e5\n2. Nf3 Nc6\n3. O-O-O axb8=Q#\n", "....................!................!");
    follow(chess, "1. e4 e9", "........");
    follow(chess, "1. e4 e5\n0", "..........");
}

static void test_characters(void **state) {
    (void)state;
    follow("root ::= \"\\x41\\u00e9\\U0001F600\\t\\\"\\\\\\[\\]\\-\"", "A\xc3\xa9\xf0\x9f\x98\x80\t\"\\[]-",
           ".............!");
    follow("root ::= [\\x41-\\x43\\u00e9\\]^-]{0,}", "ABC\xc3\xa9]-^D", "!!!!.!!!!");
    follow("root ::= [^a-z^]", "^", ".");
    follow("root ::= [-a] [a-] [[] [\"]", "--[\"", "....!");
    follow("root ::= .+", "a\n\r\xe2\x82\xac\x01", ".!!!..!!");
    follow("root ::= [^a]", "\n", ".!");
    follow("root ::= [ぁ-ゟ]", "あ", "...!");
    follow("root ::= \"é\"+", "é\xc3\xa8", "..!.");
    follow("root ::= [.*+?(){}|\\\\/$&~#]+", ".*+?(){}|\\/$&~#", ".!!!!!!!!!!!!!!!");
    follow("root ::= \"^$.|(?:a)*\"", "^$.|(?:a)*", "..........!");
    follow("root ::= \"# no comment\" # but this\n", "# no comment", "............!");
    follow("root ::= .{8}", "\xfb\xff/ab", ".");
    follow("root ::= .{8}", "\xf8\x88\x80\x80\x80", ".");
    follow("root ::= .{8}", "\xf5\x80\x80\x80", ".");
    follow("root ::= .{8}", "\xe2\xff", "..");
    follow("root ::= [^\\x01-\\U0010FFFF] \"a\"", "\x01", ".");
}

static void test_zero_byte(void **state) {
    (void)state;
    struct kvc_grammar *grammar = open_grammar("root ::= \"\\x00\" [\\x00]");
    assert_int_equal(check(grammar, "\0", 1), KVC_GRAMMAR_BEGUN);
    assert_int_equal(check(grammar, "\0\0", 2), KVC_GRAMMAR_WHOLE);
    kvc_grammar_close(grammar);
}

static void test_repeats(void **state) {
    (void)state;
    follow("root ::= \"ab\"{2}", "ababa", "....!");
    follow("root ::= \"ab\"{1,2} \"c\"", "ababab", ".....");
    follow("root ::= (\"a\" | \"bc\"){2,}", "abcaa", "...!!!");
    follow("root ::= \"a\"{ 2 , 3 } *", "aaaaaaa", "!.!!!!!!");
    follow("root ::= \"a\"{0} \"b\"{0,0}", "a", "!");
    follow("root ::= (\"a\"?)* \"b\"", "aab", "...!");
    follow("root ::= (\"ab\"{2}){2}", "abababab", "........!");
    follow("root ::= a{3} # calls\na ::= \"x\" | \"yz\"", "xyzx", "....!");
    follow("root ::= \"a\" +?", "aa", "!!!");
    follow("root ::=", "a", "!");
    follow("root ::= | \"a\"", "a", "!!");
}

/* A call is not atomic: a match may backtrack into it. */
static void test_goes_back(void **state) {
    (void)state;
    follow("root ::= many \"ab\"\nmany ::= [a-z]*", "abab", "..!.!");
    follow("root ::= short \"c\"\nshort ::= \"a\" | \"ab\"", "abc", "...!");
    follow("root ::= half{2} \"b\"\nhalf ::= \"a\" \"b\"?", "aab", "...!");
    follow("root ::= \"a\" root \"b\" | \"a\"", "aaabb", ".!...!");
    follow("root ::= \"(\" root \")\" root | \"\"", "(())()", "!...!.!");
}

static void test_lines(void **state) {
    (void)state;
    follow("\n\n  root ::=\n  a_1 |\n\n b-2 # one\n\n\na_1::=\"a\"\nb-2\t::=\t(\n\"b\"\n|\n\"B\"\n)\nunused ::= \"c\"",
           "B", ".!");
    follow("root ::= \"a\"\r\n\r\n# end", "a", ".!");
    follow("root ::= \"a\nb\"", "a\nb", "...!");
}

static const struct {
    const char *grammar, *message;
} refusals[] = {
    {"", "grammar: the rule root"},
    {"rot ::= \"a\"", "grammar: the rule root"},
    {"root ::= \"a\"\nroot ::= \"b\"", "line 2: the rule root is defined twice, first in line 1"},
    {"root ::= \"a\" |\n  b-c", "line 2: the rule b-c is not defined"},
    {"root ::= \"a\"\nx ::= y", "line 2: the rule y is not defined"},
    {"root ::= root \"a\" | \"a\"", "line 1: the rule root is left recursive: it calls itself, before"},
    {"root ::= \"x\" a\na ::= b \"c\"\nb ::= \"d\" | (a | \"e\") \"f\"",
     "is left recursive: it calls itself, through b"},
    {"root ::= e a\ne ::= \"\" | \"x\"\na ::= e* (e{2} | \"b\"?) a | \"c\"", "line 3: the rule a is left recursive"},
    {"root ::= a\na ::= b\nb ::= c?\nc ::= \"x\" | a", "is left recursive: it calls itself, through"},
    {"root ::= \"a\" root", "line 1: the rule root has no end"},
    {"root ::= \"a\" | b\nb ::= \"b\" c+\nc ::= \"c\" b", "has no end"},
    {"root ::= <[123]>", "line 1: references to tokens"},
    {"root ::= \"a\"\nx ::= <think>", "line 2: references to tokens"},
    {"root ::= !<[1]>", "references to tokens"},
    {"root ::= (\n \"a\"\n", "line 1: the ( is not closed: line 3 has the end"},
    {"root ::= (\"a\"\nx ::= \"b\"", "line 1: the ( is not closed: line 2 has ':'"},
    {"root ::= \"a\")", "line 1: the ) closes nothing"},
    {"root ::= \"a\n\n", "line 1: the literal is not closed"},
    {"\nroot ::= [a-", "line 2: the class is not closed"},
    {"root ::= [a-\\", "no escape after \\: the end"},
    {"root ::= []", "line 1: the class has no characters"},
    {"root ::= [^]", "write . for any"},
    {"root ::= [^\\x00-\\U0010FFFF]", "the class leaves no character"},
    {"root ::= [^\\uE000-\\U0010FFFF\\x00-\\x7f\\x05\\x70-\\uD7FF]", "the class leaves no character"},
    {"root ::= [z-a]", "the range from U+007A to U+0061 is in the wrong order"},
    {"root ::= \"\\d\"", "no escape after \\: 'd'"},
    {"root ::= \"\\x4g\"", "the escape needs 2 hexadecimal digits"},
    {"root ::= \"\\uD83D\"", "U+D83D is no character"},
    {"root ::= \"\\U00110000\"", "U+110000 is no character"},
    {"root ::= \"a\xff\"", "line 1: a byte that is not UTF-8"},
    {"root ::= \"a\xed\xa0\x80\"", "line 1: a byte that is not UTF-8"},
    {"root ::= * \"a\"", "line 1: there is nothing before * to repeat"},
    {"root ::= \"a\" | {2}", "there is nothing before { to repeat"},
    {"root ::= \"a\"{,2}", "a repeat is {N}, {N,} or {N,M}; found ','"},
    {"root ::= \"a\"{2", "found the end"},
    {"root ::= \"a\"{2;3}", "found ';'"},
    {"root ::= \"a\"{3,2}", "the repeat {3,2} is in the wrong order"},
    {"root ::= \"a\"{99999999999}", "a repeat count is at most 65535"},
    {"root ::= \"a\"*********", "an item has more than 8 repeats"},
    {"root \"a\"", "line 1: after the name root there must be ::=, but there is '\"'"},
    {"root ::= \"a\"\n\"b\"", "line 2: a rule must begin here"},
    {"root ::= \"a\"\n| \"b\"", "within parentheses or after |"},
    {"root ::= \"a\" = \"b\"", "line 1: unknown: '='"},
    {"root ::= (?=\"a\")", "there is nothing before ? to repeat"},
    {"root ::= a\na ::=\nb ::= \"b\"", "line 2: line 3 begins a rule before this one has a body"},
    {"root ::= ('a')", "the ( is not closed: line 1 has '''"},
};

static void test_refusals(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        struct kvc_grammar *grammar;
        struct kvc_error error = {0};
        const char *text = refusals[i].grammar;
        if (kvc_grammar_open(KVC_GRAMMAR_GBNF, text, strlen(text), &grammar, &error) != KVC_USAGE || grammar ||
            !strstr(error.text, refusals[i].message))
            fail_msg("%s\n%s\nnot: %s", text, error.text, refusals[i].message);
    }
}

/* Opens a grammar of a beginning, `count` times a part, and an end. */
static void refuse_many(const char *begins, const char *part, size_t count, const char *ends, const char *message) {
    const size_t bytes = strlen(begins) + count * strlen(part) + strlen(ends) + 1;
    char *text = malloc(bytes), *at = text;
    struct kvc_grammar *grammar;
    struct kvc_error error;
    assert_non_null(text);
    at = stpcpy(at, begins);
    for (size_t i = 0; i < count; i++)
        at = stpcpy(at, part);
    at = stpcpy(at, ends);
    REFUSED(kvc_grammar_open(KVC_GRAMMAR_GBNF, text, (size_t)(at - text), &grammar, &error), KVC_USAGE, message);
    free(text);
}

static void test_bounds(void **state) {
    (void)state;
    refuse_many("root ::= ", "(", 101, "", "more than 100 parentheses");
    refuse_many("root ::= ", "(", 100000, "", "more than 100 parentheses");
    refuse_many("root ::= ", "\"a\" ", 20001, "", "the grammar is too large");
    refuse_many("root ::= \"", "a", 200000, "\"", "grammar: too large");
    refuse_many("root ::= ", "a{2000} ", 100, "\na ::= \"x\" | \"y\"", "grammar: too large");
    refuse_many("root ::= ", "a", 2000000, "", "at most 1048576");
}

/* A hundred parentheses, and a thousand levels of recursion, are fine. */
static void test_deep(void **state) {
    (void)state;
    char text[3000] = "root ::= ";
    memset(text + 9, '(', 100);
    strcpy(text + 109, "\"a\"");
    for (size_t i = 0; i < 100; i++)
        strcpy(text + 112 + 2 * i, ")?");
    follow(text, "a", "!!");
    struct kvc_grammar *grammar = open_grammar(json);
    memset(text, '[', 1000);
    memset(text + 1000, ']', 1000);
    assert_int_equal(check(grammar, text, 1999), KVC_GRAMMAR_BEGUN);
    assert_int_equal(check(grammar, text, 2000), KVC_GRAMMAR_WHOLE);
    kvc_grammar_close(grammar);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json),    cmocka_unit_test(test_samples),   cmocka_unit_test(test_characters),
        cmocka_unit_test(test_repeats), cmocka_unit_test(test_goes_back), cmocka_unit_test(test_zero_byte),
        cmocka_unit_test(test_lines),   cmocka_unit_test(test_refusals),  cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_deep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
