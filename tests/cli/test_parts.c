/* test_parts.c - the program's helpers: options, numbers, tables, files, JSON text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/verify/verify.h"

static const struct cli_command command = {"test", "", "", "", NULL, NULL};

/* Discards standard error during the tests of refusals. */
static int silence(void) {
    int saved = dup(2);
    FILE *sink = fopen("/dev/null", "w");

    fflush(stderr);
    dup2(fileno(sink), 2);
    fclose(sink);
    return saved;
}
static void speak(int saved) {
    fflush(stderr);
    dup2(saved, 2);
    close(saved);
}

struct values {
    bool flag;
    const char *text, *choice;
    int64_t whole;
    double real;
    uint64_t bytes;
    enum kvc_type type;
    struct cli_texts texts;
    struct cli_counts counts;
    struct cli_words words;
};

static int parse(struct values *v, const char *line) {
    const struct cli_option options[] = {{CLI_GROUP, 0, "A group", NULL, NULL, NULL, 0, 0, NULL},
                                         {CLI_FLAG, 'v', "flag", NULL, "", &v->flag, 0, 0, NULL},
                                         {CLI_TEXT, 't', "text", "T", "", &v->text, 0, 0, NULL},
                                         {CLI_INT, 'n', "whole", "N", "", &v->whole, -5, 100, NULL},
                                         {CLI_REAL, 'r', "real", "R", "", &v->real, 0, 1, NULL},
                                         {CLI_BYTES, 0, "bytes", "B", "", &v->bytes, 0, 0, NULL},
                                         {CLI_TYPE, 0, "type", "TYPE", "", &v->type, 0, 0, "f32|q8_0"},
                                         {CLI_CHOICE, 0, "choice", "C", "", &v->choice, 0, 0, "one|two"},
                                         {CLI_TEXTS, 'a', NULL, "T", "", &v->texts, 0, 0, NULL},
                                         {CLI_TEXTS, 0, "and", "T", "", &v->texts, 0, 0, NULL},
                                         {CLI_COUNTS, 0, "counts", "N,..", "", &v->counts, 1, 9, NULL},
                                         {.kind = CLI_END}};
    static char buffer[256];
    char *argv[32] = {buffer};
    int argc = 1, saved = silence(), status;

    memset(v, 0, sizeof *v);
    snprintf(buffer, sizeof buffer, "%s", line);
    for (char *word = strtok(buffer, " "); word; word = strtok(NULL, " "))
        argv[argc++] = word;
    status = cli_parse(&command, options, argc, argv, &v->words);
    speak(saved);
    return status;
}

static void drop(struct values *v) {
    cli_texts_free(&v->texts);
    cli_words_free(&v->words);
}

static void options_are_read(void **state) {
    struct values v;

    (void)state;
    assert_int_equal(parse(&v, "-v --text hello --whole=-5 x -r 0.5 --bytes 2K y --type q8_0 --choice two"), CLI_GO);
    assert_true(v.flag);
    assert_string_equal(v.text, "hello");
    assert_int_equal(v.whole, -5);
    assert_true(v.real == 0.5);
    assert_int_equal(v.bytes, 2048);
    assert_int_equal(v.type, KVC_Q8_0);
    assert_string_equal(v.choice, "two");
    assert_int_equal(v.words.count, 2);
    assert_string_equal(v.words.items[1], "y");
    drop(&v);
    assert_int_equal(parse(&v, "-vn7 --counts 1,9 -a p --and q -ar -- -v - --text"), CLI_GO);
    assert_true(v.flag);
    assert_int_equal(v.whole, 7);
    assert_int_equal(v.counts.count, 2);
    assert_int_equal(v.counts.items[1], 9);
    assert_int_equal(v.texts.count, 3);
    assert_int_equal(v.texts.items[0].letter, 'a');
    assert_string_equal(v.texts.items[1].text, "q");
    assert_string_equal(v.texts.items[2].text, "r");
    assert_int_equal(v.words.count, 3);
    assert_string_equal(v.words.items[0], "-v");
    drop(&v);
    assert_int_equal(parse(&v, "--text= -n 1 -n 2"), CLI_GO);
    assert_string_equal(v.text, "");
    assert_int_equal(v.whole, 2);
    drop(&v);
    assert_int_equal(parse(&v, "-t -v"), CLI_GO); /* a value may begin with a dash */
    assert_string_equal(v.text, "-v");
    drop(&v);
}

static void wrong_options_are_refused(void **state) {
    static const char *const lines[] = {"--fla",
                                        "--flag=1",
                                        "-x",
                                        "-vx",
                                        "-n",
                                        "--whole",
                                        "-n 101",
                                        "-n -6",
                                        "-n 1x",
                                        "-n 0x10",
                                        "--whole=",
                                        "-r 1.01",
                                        "-r nan",
                                        "-r inf",
                                        "-r 1,0",
                                        "--bytes K",
                                        "--bytes -1",
                                        "--bytes 1X",
                                        "--bytes 1KK",
                                        "--bytes 99999P",
                                        "--type f16",
                                        "--type none",
                                        "--choice on",
                                        "--choice one|two",
                                        "--choice three",
                                        "--counts 0",
                                        "--counts 10",
                                        "--counts 1,",
                                        "--counts ,1",
                                        "--counts x",
                                        "--=3"};
    struct values v;

    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        int status = parse(&v, lines[i]);

        if (status != KVC_USAGE)
            print_error("accepted: %s\n", lines[i]);
        assert_int_equal(status, KVC_USAGE);
        drop(&v);
    }
}

static void near_names_are_found(void **state) {
    static const char *const names[] = {"run", "chat", "perplexity", "temp", NULL};

    (void)state;
    assert_string_equal(cli_nearest("rnu", names), "run");
    assert_string_equal(cli_nearest("chta", names), "chat");
    assert_string_equal(cli_nearest("perplexty", names), "perplexity");
    assert_string_equal(cli_nearest("temperature", names), "temp");
    assert_string_equal(cli_nearest("perp", names), "perplexity");
    assert_null(cli_nearest("zzzzzz", names));
    assert_null(cli_nearest("", names));
}

static void numbers_are_readable(void **state) {
    char text[32];
    double values[] = {3, 1, 2, 10};

    (void)state;
    assert_string_equal(cli_bytes(0, text), "0 B");
    assert_string_equal(cli_bytes(1023, text), "1023 B");
    assert_string_equal(cli_bytes(1024, text), "1.00 KiB");
    assert_string_equal(cli_bytes(1536, text), "1.50 KiB");
    assert_string_equal(cli_bytes(1048575, text), "1.00 MiB");
    assert_string_equal(cli_bytes((uint64_t)3 << 30, text), "3.00 GiB");
    assert_string_equal(cli_bytes(UINT64_MAX, text), "16384 PiB");
    assert_string_equal(cli_time(0.0000015, text), "1.50 us");
    assert_string_equal(cli_time(0.0123, text), "12.3 ms");
    assert_string_equal(cli_time(2, text), "2.00 s");
    assert_string_equal(cli_time(125, text), "2:05 min");
    assert_string_equal(cli_number(0, text), "0");
    assert_string_equal(cli_number(999, text), "999");
    assert_string_equal(cli_number(1234567, text), "1,234,567");
    assert_true(cli_median(values, 3) == 2);
    assert_true(cli_median(values, 4) == 2.5);
    assert_true(cli_median(values, 0) == 0);
}

static void tables_stay_narrow(void **state) {
    static const char *const policies[] = {"full", "morphkv:budget=600,window=64,fusion=max,every=4,skip_layers=2"};
    struct cli_table *table = cli_table_open("<policy|one number|another number|a third number|a fourth one|fifth");
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        cli_cell(table, "%s", policies[i]);
        for (int c = 0; c < 5; c++)
            cli_cell(table, "%d", 1000000 * c);
    }
    assert_int_equal(cli_table_print(&command, table, stream), KVC_OK);
    fclose(stream);
    assert_non_null(strstr(text, "\nmorphkv:budget=600,window=64,fusion=max,every=4,skip_layers=2\n"));
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
        assert_true(strcspn(line, "\n") <= 100);
    free(text);
    cli_table_free(table);

    table = cli_table_open("<a|<b");
    stream = open_memstream(&text, &bytes);
    cli_cell(table, "x");
    for (int i = 0; i < 1; i++)
        cli_cell(table, "%0150d words that wrap", 1);
    cli_cell(table, "y");
    cli_cell(table, "%s", "");
    assert_int_equal(cli_table_print(&command, table, stream), KVC_OK);
    fclose(stream);
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
        assert_true(strcspn(line, "\n") <= 100);
    assert_non_null(strstr(text, "\ny  \n"));
    free(text);
    cli_table_free(table);
}

static void any_bytes_are_json(void **state) {
    json_t *value = cli_json_text("a\xff\xc3\xa9\xc3 \xed\xa0\x80z\0b", 12);

    (void)state;
    assert_non_null(value);
    assert_int_equal(json_string_length(value), 1 + 3 + 2 + 3 + 1 + 9 + 3);
    assert_memory_equal(json_string_value(value), "a\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd ", 10);
    json_decref(value);
}

static void characters_are_whole(void **state) {
    static const struct {
        const char *text, *shown;
        size_t begun;
    } cases[] = {{"", "", 0},
                 {"a", "a", 0},
                 {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80", 0},
                 {"a\xf0\x9f\x98", "a\xef\xbf\xbd", 3}, /* an incomplete character counts as one missing character */
                 {"a\xf0", "a\xef\xbf\xbd", 1},
                 {"\xc3", "\xef\xbf\xbd", 1},
                 {"\xe2\x82", "\xef\xbf\xbd", 2},
                 {"\xe2\x82(", "\xef\xbf\xbd(", 0},
                 {"\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd", 0},
                 {"\xf4\x90", "\xef\xbf\xbd\xef\xbf\xbd", 0}, /* above U+10FFFF */
                 {"\xc0\xaf\xff", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", 0}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const size_t n = strlen(cases[i].text);
        char *shown = NULL;
        size_t bytes = 0;
        FILE *stream = open_memstream(&shown, &bytes);
        json_t *value = cli_json_text(cases[i].text, n);

        cli_write_text(stream, cases[i].text, n);
        fclose(stream);
        assert_string_equal(shown, cases[i].shown);
        assert_string_equal(json_string_value(value), cases[i].shown);
        assert_int_equal(cli_begun(cases[i].text, n), cases[i].begun);
        json_decref(value);
        free(shown);
    }
}

/* One part took a second, the next one two: no estimate before three parts have ended, then one from the last parts
 * only. */
static void progress_estimates(void **state) {
    struct cli_progress progress = {0};

    (void)state;
    cli_progress_mark(&progress, 0, 0);
    for (unsigned i = 1; i < 3; i++) {
        cli_progress_mark(&progress, i, i);
        assert_true(cli_progress_left(&progress, 100) < 0);
    }
    cli_progress_mark(&progress, 3, 3);
    assert_float_equal(cli_progress_left(&progress, 100), 97, 1e-9);
    cli_progress_mark(&progress, 3.1, 50); /* it ends at the same time as the part before */
    assert_float_equal(cli_progress_left(&progress, 100), 97, 1e-9);
    for (unsigned i = 4; i < 40; i++)
        cli_progress_mark(&progress, 3 + 2 * (i - 3), i);
    assert_float_equal(cli_progress_left(&progress, 100), 2 * 61, 1e-9);
}

/* The remaining time is shown while parts remain and the speed is known, on a terminal and elsewhere. */
static void progress_ends(void **state) {
    (void)state;
    for (int terminal = 0; terminal < 2; terminal++) {
        for (int i = 0; i < 3; i++) {
            static const uint64_t done[] = {500, 999, 1000};
            static const char *const share[] = {" 50%", " 99%", "100%"};
            struct cli_progress progress;
            char text[256] = "";
            int saved = dup(2);
            FILE *file = tmpfile();

            cli_progress_start(&progress, "work", false);
            progress.terminal = terminal == 1;
            progress.start -= 100;
            progress.last -= 100;
            for (unsigned part = 0; part < 4; part++)
                cli_progress_mark(&progress, progress.start + part, part);
            dup2(fileno(file), 2);
            cli_progress(&progress, done[i], 1000);
            speak(saved);
            rewind(file);
            assert_true(fread(text, 1, sizeof text - 1, file) > 0);
            fclose(file);
            assert_non_null(strstr(text, share[i]));
            assert_int_equal(strstr(text, " left") != NULL, i < 2);
        }
    }
}

/* The remaining time is written in seconds, minutes or hours. Half of the work took as long as the other half will. */
static void remaining_time_is_rough(void **state) {
    static const struct {
        double took;
        const char *left;
    } cases[] = {{40, "40 s left"}, {600, "10 min left"}, {7300, "2 h left"}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct cli_progress progress;
        char text[256] = "";
        FILE *file = tmpfile();

        cli_progress_start(&progress, "work", false);
        progress.start -= cases[i].took;
        progress.last -= cases[i].took;
        for (unsigned part = 0; part < 4; part++)
            cli_progress_mark(&progress, progress.start + part, part);
        const int saved = dup(2);
        dup2(fileno(file), 2);
        cli_progress(&progress, 500, 1000);
        speak(saved);
        rewind(file);
        assert_true(fread(text, 1, sizeof text - 1, file) > 0);
        fclose(file);
        if (!strstr(text, cases[i].left))
            fail_msg("'%s' lacks '%s'", text, cases[i].left);
    }
}

/* A cell of the last column without a place to break is broken between characters, not within them. */
static void cells_break_between_characters(void **state) {
    struct cli_table *table = cli_table_open("<a|<b");
    char cell[2 * 150 + 1] = "", *text = NULL;
    size_t bytes = 0, found = 0;
    FILE *stream = open_memstream(&text, &bytes);

    (void)state;
    for (size_t i = 0; i < 150; i++)
        memcpy(cell + 2 * i, "\xc3\xa9", 2);
    cli_cell(table, "x");
    cli_cell(table, "%s", cell);
    assert_int_equal(cli_table_print(&command, table, stream), KVC_OK);
    fclose(stream);
    for (const char *at = text; *at; at++)
        if (*at == '\xc3') {
            assert_true(at[1] == '\xa9');
            found++;
        }
    assert_int_equal(found, 150);
    assert_non_null(strstr(text, "\xc3\xa9\n"));
    free(text);
    cli_table_free(table);
}

static void token_lists_are_read(void **state) {
    int32_t *tokens;
    size_t count;
    int saved = silence();

    (void)state;
    assert_int_equal(cli_token_list(&command, "x", " 1,2 3\n,,4", 10, KVC_USAGE, &tokens, &count), KVC_OK);
    assert_int_equal(count, 4);
    assert_int_equal(tokens[3], 4);
    free(tokens);
    assert_int_equal(cli_token_list(&command, "x", "2147483647", 10, KVC_USAGE, &tokens, &count), KVC_OK);
    assert_int_equal(tokens[0], 2147483647);
    free(tokens);
    assert_int_equal(cli_token_list(&command, "x", "2147483648", 10, KVC_USAGE, &tokens, &count), KVC_USAGE);
    assert_int_equal(cli_token_list(&command, "x", "99999999999999999999", 20, KVC_USAGE, &tokens, &count), KVC_USAGE);
    assert_int_equal(cli_token_list(&command, "x", "1;2", 3, KVC_INPUT, &tokens, &count), KVC_INPUT);
    assert_int_equal(cli_token_list(&command, "x", "", 0, KVC_INPUT, &tokens, &count), KVC_INPUT);
    assert_null(tokens);
    speak(saved);
}

static void files_appear_when_complete(void **state) {
    char folder[] = "/tmp/kvcull-test-XXXXXX", path[64], *text;
    struct cli_file file;
    size_t bytes;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/out", folder);
    assert_int_equal(cli_file_open(&command, path, &file), KVC_OK);
    fputs("one", file.stream);
    assert_int_not_equal(access(path, F_OK), 0);
    cli_file_abandon(&file);
    assert_int_equal(rmdir(folder), 0); /* no file is left */
    memcpy(folder + strlen(folder) - 6, "XXXXXX", 6);
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/out", folder);
    for (int i = 0; i < 2; i++) { /* the second time it replaces the first file */
        assert_int_equal(cli_file_open(&command, path, &file), KVC_OK);
        fprintf(file.stream, "text %d", i);
        assert_int_equal(cli_file_commit(&command, &file), KVC_OK);
    }
    assert_int_equal(cli_read_file(&command, path, &text, &bytes), KVC_OK);
    assert_int_equal(bytes, 6);
    assert_string_equal(text, "text 1");
    free(text);
    unlink(path);
    assert_int_equal(rmdir(folder), 0);
}

static void differences_are_found(void **state) {
    const float zero = 0.0f, nan = zero / zero;
    const float want[] = {1, 0.0f, nan, 3}, same[] = {1, 0.0f, -nan, 3}, other[] = {1, -0.0f, 2, 3};
    const int32_t a[] = {0, 1, 5, 9}, b[] = {0, 5, 6, 9, 11};
    struct verify_report report = {.command = &command, .table = cli_table_open("<a|b|c|d|e|f|<g|<h")};
    struct kvc_verify_row row = {.kind = "operation", .name = "norm", .cases = 1, .values = 4};
    size_t first = 99;
    int32_t position = 99;
    uint64_t bits = 0;

    (void)state;
    assert_int_equal(verify_values(want, same, 4, &first, &bits), 0);
    assert_int_equal(bits, 0);
    assert_int_equal(verify_values(want, other, 4, &first, &bits), 2);
    assert_int_equal(first, 1); /* -0 has other bits than +0 */
    assert_true(bits > 2);      /* one bit pattern, or many with a number instead of a NaN */
    assert_int_equal(verify_positions(a, 4, a, 4, &position), 0);
    assert_int_equal(verify_positions(a, 4, b, 5, &position), 3);
    assert_int_equal(position, 1);
    assert_int_equal(verify_positions(a, 0, b, 5, &position), 5);
    assert_int_equal(position, 0);
    verify_add(&report, "avx2", &row, false);
    assert_int_equal(report.differing, 0);
    row.differing = 2;
    snprintf(row.first, sizeof row.first, "rows 3: 00000000, not 80000000");
    verify_add(&report, "avx2", &row, false);
    snprintf(row.first, sizeof row.first, "another");
    row = (struct kvc_verify_row){.kind = "method", .name = "full", .kept_differing = 1, .read_differing = 4};
    verify_add(&report, "avx512", &row, true);
    assert_int_equal(report.differing, 7);
    assert_int_equal(report.with_stored, 1);
    assert_int_equal(report.beside, 2);
    assert_string_equal(report.first, "avx2, operation norm: rows 3: 00000000, not 80000000");
    cli_table_free(report.table);
}

/* The text of tokens; the caller frees it. */
static char *text_of(const struct kvc_model *model, const int32_t *tokens, size_t count) {
    struct kvc_error error;
    char *text;
    size_t bytes;

    assert_int_equal(kvc_detokenize(model, tokens, count, true, &text, &bytes, &error), KVC_OK);
    return text;
}

static struct kvc_model *open_tiny(struct kvc_engine **engine) {
    const struct kvc_engine_options options = {.backend = "ref"};
    char path[] = "/tmp/kvcull-test-XXXXXX";
    int descriptor = mkstemp(path);
    struct kvc_model *model;
    struct kvc_error error;

    assert_true(descriptor >= 0);
    close(descriptor);
    assert_int_equal(kvc_make_model("tiny", KVC_F32, 1, path, &error), KVC_OK);
    assert_int_equal(kvc_engine_open(&options, engine, &error), KVC_OK);
    assert_int_equal(kvc_model_open(*engine, path, &model, &error), KVC_OK);
    unlink(path);
    return model;
}

/* The tokens of two turns and the answer between them are the template's text of the whole conversation. */
static void turns_are_the_conversation(void **state) {
    const struct kvc_message messages[] = {{"system", "Be brief."},
                                           {"user", "How are you?"},
                                           {"assistant", "Fine, thank you."},
                                           {"user", "What did I ask?"}};
    struct kvc_engine *engine;
    struct kvc_model *model = open_tiny(&engine);
    struct kvc_error error;
    const char *name, *summary;

    (void)state;
    for (size_t i = 0; kvc_chat_template(i, &name, &summary); i++) {
        struct cli_chat *chat;
        int32_t *tokens;
        size_t count, n;
        char *whole, *one, *two;

        const struct cli_template from = {.name = name, .system = messages[0].content};
        struct cli_answer answer = {.text = (char *)(uintptr_t)messages[2].content};

        assert_int_equal(cli_chat_open(&command, model, &from, &chat), KVC_OK);
        if (kvc_chat_text(model, name, messages, 4, true, &whole, &error) != KVC_OK)
            fail_msg("%s: %s", name, error.text);
        assert_int_equal(cli_chat_turn(chat, messages[1].content, &tokens, &count), KVC_OK);
        one = text_of(model, tokens, count);
        free(tokens);
        answer.bytes = strlen(answer.text);
        assert_int_equal(cli_chat_answer(chat, &answer), KVC_OK);
        assert_int_equal(cli_chat_turn(chat, messages[3].content, &tokens, &count), KVC_OK);
        two = text_of(model, tokens, count);
        free(tokens);
        n = strlen(whole) - strlen(two);
        if (!strstr(one, messages[0].content) || !strstr(one, messages[1].content))
            fail_msg("%s: the first turn is '%s'", name, one);
        if (strlen(two) > strlen(whole) || strcmp(whole + n, two) != 0 || n < strlen(messages[2].content) ||
            memcmp(whole + n - strlen(messages[2].content), messages[2].content, strlen(messages[2].content)) != 0)
            fail_msg("%s: '%s' is not what follows the answer in '%s'", name, two, whole);
        free(one);
        free(two);
        free(whole);
        cli_chat_close(chat);
    }
    kvc_model_close(model);
    kvc_engine_close(engine);
}

/* An answer with a byte 0 is kept whole, and so is its displayed text; a continued answer stays one message. */
static void answers_are_kept_whole(void **state) {
    char first[] = "a\0b", second[] = "\0";
    const struct cli_answer begun = {.text = first, .bytes = 3}, ended = {.text = second, .bytes = 1};
    const struct cli_template from = {.name = "chatml"};
    struct kvc_engine *engine;
    struct kvc_model *model = open_tiny(&engine);
    struct cli_chat *chat;

    (void)state;
    assert_int_equal(cli_chat_open(&command, model, &from, &chat), KVC_OK);
    assert_int_equal(cli_chat_answer(chat, &begun), KVC_OK);
    assert_int_equal(cli_chat_extend(chat, &ended), KVC_OK);
    json_t *messages = cli_chat_messages(chat);
    assert_int_equal(json_array_size(messages), 1);
    assert_string_equal(json_string_value(json_object_get(json_array_get(messages, 0), "content")),
                        "a" CLI_REPLACEMENT "b" CLI_REPLACEMENT);
    json_decref(messages);
    cli_chat_close(chat);
    kvc_model_close(model);
    kvc_engine_close(engine);
}

/* A saved session's note may come from another program: a conversation without the role or the text of a message is
 * refused, and the error names the message. */
static void restored_messages_are_checked(void **state) {
    static const char *const wrong[] = {
        "[{\"role\": \"user\", \"content\": \"a\"}, 5]",
        "[{\"role\": \"user\", \"content\": \"a\"}, {\"content\": \"b\"}]",
        "[{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"tool\", \"content\": \"b\"}]",
        "[{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"user\", \"content\": [5]}]"};
    const struct cli_template from = {.name = "chatml"};
    struct kvc_engine *engine;
    struct kvc_model *model = open_tiny(&engine);

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        json_t *messages = json_loads(wrong[i], 0, NULL);
        struct cli_chat *chat;
        char text[256] = "";
        FILE *file = tmpfile();

        assert_non_null(messages);
        assert_int_equal(cli_chat_open(&command, model, &from, &chat), KVC_OK);
        const int saved = dup(2);
        dup2(fileno(file), 2);
        const int status = cli_chat_restore(chat, messages, "a file");
        speak(saved);
        assert_int_equal(status, KVC_INPUT);
        rewind(file);
        assert_true(fread(text, 1, sizeof text - 1, file) > 0);
        fclose(file);
        assert_non_null(strstr(text, "a file: message 1: must have a text and the role system, user or assistant"));
        cli_chat_close(chat);
        json_decref(messages);
    }
    kvc_model_close(model);
    kvc_engine_close(engine);
}

/* The choices of --kv-type are the library's types of entries, and an example of two types. */
static void test_kv_choices(void **state) {
    (void)state;
    char choices[] = "|" CLI_KV_CHOICES "|", name[40];
    struct kvc_entry_types found;
    size_t listed = 0, types = 0;
    for (int type = 0; type < KVC_ANY_TYPE; type++) {
        snprintf(name, sizeof name, "|%s|", kvc_type_name((enum kvc_type)type));
        types += kvc_entry_types_valid(kvc_entry_types((enum kvc_type)type));
        assert_int_equal(strstr(choices, name) != NULL, kvc_entry_types_valid(kvc_entry_types((enum kvc_type)type)));
    }
    for (char *choice = strtok(choices, "|"); choice; choice = strtok(NULL, "|"), listed++)
        assert_true(kvc_entry_types_from_name(choice, &found));
    assert_int_equal(listed, types + 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kv_choices),
                                       cmocka_unit_test(options_are_read),
                                       cmocka_unit_test(wrong_options_are_refused),
                                       cmocka_unit_test(near_names_are_found),
                                       cmocka_unit_test(numbers_are_readable),
                                       cmocka_unit_test(tables_stay_narrow),
                                       cmocka_unit_test(any_bytes_are_json),
                                       cmocka_unit_test(token_lists_are_read),
                                       cmocka_unit_test(files_appear_when_complete),
                                       cmocka_unit_test(characters_are_whole),
                                       cmocka_unit_test(progress_ends),
                                       cmocka_unit_test(remaining_time_is_rough),
                                       cmocka_unit_test(cells_break_between_characters),
                                       cmocka_unit_test(progress_estimates),
                                       cmocka_unit_test(answers_are_kept_whole),
                                       cmocka_unit_test(restored_messages_are_checked),
                                       cmocka_unit_test(differences_are_found),
                                       cmocka_unit_test(turns_are_the_conversation)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
