/* round.c - the filter `round`: rounds to decimal places, also to the left of the point; ties go to the even digit. */
#include "models/jinja/parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_PLACES = 60, MOST_EXACT = 22 };

/* Returns 10 to the power of k, 0 <= k <= 18. */
static int64_t power_of_ten(int64_t k) {
    int64_t power = 1;
    while (k-- > 0) {
        power *= 10;
    }
    return power;
}

static struct jinja_value round_whole(struct jinja *j, int64_t whole, int64_t places) {
    const uint64_t size = whole < 0 ? 0 - (uint64_t)whole : (uint64_t)whole, half = 5000000000000000000u;
    if (places >= 0 || places < -19 || (places == -19 && size <= half)) {
        return jinja_int(places >= 0 ? whole : 0);
    }
    const uint64_t unit = places == -19 ? 2 * half : (uint64_t)power_of_ten(-places), over = size % unit;
    uint64_t made = size - over;
    if (over > unit - over || (over == unit - over && made / unit % 2)) {
        made += unit;
    }
    if (made > INT64_MAX) {
        return JINJA_FAIL(j, "round: the number has more than 64 bits");
    }
    return jinja_int(whole < 0 ? -(int64_t)made : (int64_t)made);
}

/* Rounds to a digit to the left of the point. Uses C's formatting of the exact value, which rounds ties to even. */
static double round_before_point(struct jinja *j, double size, int64_t places) {
    char digits[40];
    double made = size;
    const int64_t significant = jinja_exponent(size) + 1 + places;
    if (size == 0 || significant < 0) {
        return 0;
    }
    if (significant == 0) {
        snprintf(digits, sizeof digits, "5e%d", jinja_exponent(size));
        return jinja_read_float(digits, strlen(digits), &made) && size > made ? made * 2 : 0;
    }
    struct jinja_text text = {0};
    jinja_put_scientific(j, &text, size, (int)significant);
    return text.data && jinja_read_float(text.data, text.bytes, &made) ? made : size;
}

static struct jinja_value round_real(struct jinja *j, double real, int64_t places) {
    struct jinja_text text = {0};
    double made = real;
    if (!isfinite(real)) {
        return jinja_float(real);
    }
    if (places < 0) {
        made = places < -400 ? 0 : round_before_point(j, fabs(real), places);
    } else {
        jinja_put_fixed(j, &text, fabs(real), (int)places);
        if (j->status == KVC_OK && !jinja_read_float(text.data, text.bytes, &made)) {
            made = fabs(real);
        }
    }
    return isfinite(made) ? jinja_float(copysign(made, real)) : JINJA_FAIL(j, "round: not a finite number");
}

static struct jinja_value round_one_way(struct jinja *j, struct jinja_value self, int64_t places, bool up) {
    const double power = pow(10, (double)places);
    if (jinja_is_whole(self) && places >= 0) {
        return jinja_float(jinja_real(self));
    }
    const double moved = jinja_real(self) * power, made = (up ? ceil(moved) : floor(moved)) / power;
    return isfinite(made) ? jinja_float(made == 0 ? 0 : made) : JINJA_FAIL(j, "round: not a finite number");
}

/* round(precision=0, method='common') */
struct jinja_value jinja_round(struct jinja *j, struct jinja_value self, const struct jinja_value *a,
                               const struct jinja_call *call) {
    const bool common = a[1].kind == JINJA_UNSET || jinja_is_text(a[1], "common"), up = jinja_is_text(a[1], "ceil");
    const int64_t places = jinja_is_whole(a[0]) ? jinja_whole(a[0]) : 0;
    (void)call;
    if (!common && !up && !jinja_is_text(a[1], "floor")) {
        return JINJA_FAIL(j, "round: the method must be common, ceil or floor");
    }
    if (!jinja_is_number(self) || (a[0].kind != JINJA_UNSET && !jinja_is_whole(a[0]))) {
        return JINJA_FAIL(j, "round: a %s to a precision that is a %s is not supported", jinja_type(self),
                          jinja_type(a[0].kind == JINJA_UNSET ? jinja_int(0) : a[0]));
    }
    if (places > (common ? MOST_PLACES : MOST_EXACT) || (!common && places < -MOST_EXACT)) {
        return JINJA_FAIL(j, "round: a precision of %lld is not supported", (long long)places);
    }
    if (!common) {
        return round_one_way(j, self, places, up);
    }
    return jinja_is_whole(self) ? round_whole(j, jinja_whole(self), places) : round_real(j, self.real, places);
}
