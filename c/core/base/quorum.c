#include "core/base/quorum.h"

#include <assert.h>

int quorum_size(int n)
{
    return n / 2 + 1;
}

int quorum_with(int n, int margin)
{
    int want = quorum_size(n) + margin;
    return want < n ? want : n;
}

static void tally_check(const struct tally *t)
{
    assert(t->yes >= 0 && t->absent >= 0 && t->foreign >= 0);
    assert(t->missing >= 0 && t->pending >= 0);
    assert(t->yes + t->absent + t->foreign + t->missing + t->pending == t->n);
    (void)t;
}

enum verdict quorum_vote(const struct tally *t)
{
    tally_check(t);
    int want = quorum_with(t->n, t->margin);
    if (t->yes >= want)
        return WON;
    return t->yes + t->pending < want ? LOST : UNDECIDED;
}

int quorum_may_refuse(const struct tally *t)
{
    int q = quorum_size(t->n), no = t->absent + t->foreign;
    return no < q && no + t->pending >= q;
}

enum verdict quorum_extend(const struct tally *t)
{
    enum verdict v = quorum_vote(t);
    return v == LOST && quorum_may_refuse(t) ? UNDECIDED : v;
}

int quorum_disowned(const struct tally *t)
{
    return t->absent + t->foreign >= quorum_size(t->n);
}

int quorum_foreign(const struct tally *t)
{
    return t->foreign >= quorum_size(t->n);
}

int quorum_answered(const struct tally *t)
{
    return t->yes + t->absent + t->foreign >= quorum_size(t->n);
}

int quorum_missing(const struct tally *t)
{
    return t->n - t->missing < quorum_with(t->n, t->margin);
}

enum verdict quorum_release(const struct tally *t)
{
    tally_check(t);
    int q = quorum_size(t->n);
    if (quorum_foreign(t) || quorum_missing(t))
        return LOST;
    if (!quorum_answered(t) || t->foreign + t->pending >= q)
        return UNDECIDED;
    return t->yes > 0 ? WON : LOST;
}

int64_t quorum_nth_ms(int64_t *ms, int known, int want)
{
    for (int i = 1; i < known; i++) {
        int64_t one_ms = ms[i];
        int k = i;
        for (; k > 0 && ms[k - 1] > one_ms; k--)
            ms[k] = ms[k - 1];
        ms[k] = one_ms;
    }
    return known >= want ? ms[want - 1] : -1;
}

int64_t quorum_drift_ms(int64_t lease_ms, int32_t drift_ppm)
{
    return (lease_ms * drift_ppm + 999999) / 1000000 + QUORUM_DRIFT_CONSTANT_MS;
}

int64_t quorum_deadline_ms(int64_t started_ms, int64_t lease_ms, int32_t drift_ppm)
{
    return started_ms + lease_ms - quorum_drift_ms(lease_ms, drift_ppm);
}
