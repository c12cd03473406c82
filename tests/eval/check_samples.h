/* check_samples.h - checks that samples have the content that their task defines. */
#ifndef KVC_TESTS_EVAL_CHECK_SAMPLES_H
#define KVC_TESTS_EVAL_CHECK_SAMPLES_H

#include "eval/task.h"

size_t times(const char *text, const char *words); /* returns how often the text contains the words */
const char *format(char text[256], const char *pattern, ...) __attribute__((format(printf, 2, 3)));
/* Checks one sample. For tasks with depths, `depth` is the depth of the sample. */
void check(const struct eval_task *task, const struct eval_sample *sample, double depth);
void check_fwe(const struct eval_sample *sample);

#endif
