/* trig.h - sine, cosine, exponential, logarithm and power in double, bit-identical on every machine.
 *
 * The C library's functions differ in their last bits between systems. These functions use only operations that IEEE
 * 754 rounds correctly (+ - * / fma). Errors are about one unit in the last place of a double, so a result rounded to
 * float32 is nearly always correctly rounded. */
#ifndef KVC_CORE_BASE_TRIG_H
#define KVC_CORE_BASE_TRIG_H

/* For |x| up to 2^50; NaN beyond that and for infinities. The reduction by pi/2 is fully accurate over this range. */
double kvc_double_sin(double x);
double kvc_double_cos(double x);

double kvc_double_exp(double x);           /* overflow: inf; underflow: denormals, then 0 */
double kvc_double_log(double x);           /* x = 0: -inf; x < 0: NaN */
double kvc_double_pow(double x, double y); /* x >= 0 only: NaN for x < 0 */

#endif
