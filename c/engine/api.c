/* api.c - the public functions that start rounds, read results, and free handles. */
#include "engine/engine.h"

#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "core/eligibility/guard.h"
#include "core/rounds/teach.h"
#include "core/leases/acquire.h"
#include "core/leases/fence.h"
#include "core/leases/holder.h"
#include "core/leases/watchdog.h"
#include "core/rounds/query.h"
#include "core/rounds/subscription.h"
#include "engine/card.h"

enum { TAG_LEN = 8 };        /* digits of a value that counters of tokens name it by */

int rl_abi(void)
{
    return RL_ABI;
}

/* From the kernel for every attempt, never from a buffer of our own: a fork or a copied
 * machine must not repeat a value. 0, or -1. */
static int random_hex(char *hex, size_t len)
{
    unsigned char raw[RL_VALUE_LEN / 2];
    if (getrandom(raw, len / 2, 0) != (ssize_t)(len / 2))
        return -1;
    for (size_t i = 0; i < len / 2; i++) {
        hex[2 * i] = "0123456789abcdef"[raw[i] >> 4];
        hex[2 * i + 1] = "0123456789abcdef"[raw[i] & 15];
    }
    return 0;
}

/* A new value with the label's card. 0, or -1. */
static int new_value(struct value *value, const rl_bytes *label)
{
    value->len = RL_VALUE_LEN + card_write(value->bytes + RL_VALUE_LEN, label);
    return random_hex(value->bytes, RL_VALUE_LEN);
}

int rl_nonce(char *out)
{
    return random_hex(out, RL_NONCE_LEN);
}

double rl_random(rl_client *c)
{
    if (!c)
        return 0.5;          /* a closed client does not pause */
    RETURN_LOCKED(c, (double)(state_random(&c->core) >> 11) * 0x1p-53);
}

/* ---- starting ---- */

/* Ends a function that starts a round: evaluates start with the client's mutex, at
 * now_ms. Returns NULL also when no descriptors are left. started: see
 * what_follows(). */
#define RETURN_ROUND(c, started, start)                           \
    do {                                                          \
        int64_t now_ms = engine_enter(c);                         \
        return now_ms < 0 ? NULL : started((c), (start), now_ms); \
    } while (0)
#define RETURN_STARTED(c, start) RETURN_ROUND(c, engine_send_and_leave, start)

/* NULL counts as a closed client: a coroutine may continue a call after another coroutine
 * has closed the client, and must not crash. */

static int in_range(int nkeys, int nargs)
{
    return nkeys >= 0 && nkeys <= RL_MAX_KEYS && nargs >= 0 && nargs <= RL_MAX_ARGS;
}

/* No TTL beyond max_lease may ever reach a server: quarantines rely on that. */
static int lease_in_range(const struct rl_client *c, int64_t lease_ms)
{
    return c && lease_ms > 0 &&
           lease_ms <= c->core.max_lease_ms - c->core.options.lock_delay_ms;
}

int rl_script(rl_client *c, const char *body, size_t len)
{
    if (!c)
        return 0;            /* any number will do: no round can start */
    engine_lock(c);
    int64_t now_ms = rl_now_ms();
    int script = core_script(&c->core, body, len, now_ms);
    engine_send(c, now_ms);
    engine_unlock(c);
    return script;
}

/* The validity left of a round's lease in ms; 0: too little. */
static int64_t worth_ms(const rl_round *round)
{
    int64_t left_ms = rl_remaining_ms(round->lease);
    return round->kind->expired == RL_EXPIRED &&
                   left_ms < round->core->options.min_validity_ms
               ? 0
               : left_ms;
}

/* RL_WAIT: waits, and unlocks. NULL: a lease was granted, and its round is freed. */
static rl_round *waited(struct rl_client *c, rl_round *round, int64_t now_ms)
{
    if (round && engine_wait(c, round, now_ms) == RL_GRANTED && round->kind->expired &&
        worth_ms(round) > 0) {
        engine_free(round);
        round = NULL;
    }
    engine_leave(c);
    return round;
}

static started_fn *what_follows(int32_t how)
{
    return how == RL_WAIT     ? waited
           : how == RL_NOTIFY ? engine_queue_and_leave
                              : engine_send_and_leave;
}

rl_round *rl_acquire(rl_client *c, const rl_primitive *primitive, const rl_bytes *keys,
                     int nkeys, const rl_bytes *args, int nargs, const rl_bytes *label,
                     int64_t lease_ms, int64_t within_ms, int32_t gate, int32_t how,
                     rl_lease **lease)
{
    struct value v;
    *lease = NULL;
    if (!primitive || !in_range(nkeys, nargs) || !lease_in_range(c, lease_ms) ||
        within_ms < 0 || new_value(&v, label))
        return NULL;
    RETURN_ROUND(c, what_follows(how),
                 acquire_begin(&c->core, primitive, keys, nkeys, args, nargs,
                               (rl_bytes){v.bytes, v.len}, lease_ms, within_ms, gate,
                               now_ms, lease));
}

rl_round *rl_import(rl_client *c, const rl_primitive *primitive, const rl_bytes *keys,
                    int nkeys, const rl_bytes *args, int nargs, const rl_bytes *old,
                    const rl_bytes *label, int64_t lease_ms, int64_t token, int once,
                    rl_lease **lease)
{
    struct value v;
    *lease = NULL;
    if (!primitive || primitive->import < 0 || !in_range(nkeys, nargs) ||
        !lease_in_range(c, lease_ms) ||
        old->len < RL_VALUE_LEN || old->len > RL_VALUE_MAX ||
        (token && !fence_is_token(token)) || new_value(&v, label))
        return NULL;
    memcpy(v.bytes, old->data, TAG_LEN);
    RETURN_STARTED(c, acquire_import(&c->core, primitive, keys, nkeys, args, nargs, *old,
                                     (rl_bytes){v.bytes, v.len}, lease_ms, token, once,
                                     now_ms, lease));
}

rl_round *rl_extend(rl_lease *lease, int64_t lease_ms)
{
    struct rl_client *c = client_of(lease->core);
    if (lease_ms && !lease_in_range(c, lease_ms))
        return NULL;
    RETURN_STARTED(c, holder_extend(lease, lease_ms, now_ms));
}

rl_round *rl_release(rl_lease *lease, int32_t how)
{
    struct rl_client *c = client_of(lease->core);
    RETURN_ROUND(c, what_follows(how), holder_release(lease, now_ms));
}

rl_round *rl_ask(rl_client *c, int32_t whom, int script, const rl_bytes *keys, int nkeys,
                 const rl_bytes *args, int nargs, int64_t within_ms)
{
    if (!in_range(nkeys, nargs) || within_ms < 0)
        return NULL;
    RETURN_STARTED(c, query_ask(&c->core, whom, script, keys, nkeys, args, nargs, within_ms,
                                now_ms));
}

rl_round *rl_check(rl_client *c)
{
    RETURN_STARTED(c, query_probe(&c->core, now_ms));
}

rl_round *rl_teach(rl_client *c, int64_t seen_ms, int32_t force, int64_t within_ms)
{
    RETURN_STARTED(c, teach_begin(&c->core, seen_ms, force, within_ms, now_ms));
}

rl_round *rl_sleep(rl_client *c, int64_t ms, rl_subscription *subscription, int64_t seen)
{
    RETURN_STARTED(c, subscription_pause(&c->core, subscription, seen, ms, now_ms));
}

rl_subscription *rl_subscribe(rl_client *c, const char *channel, size_t len)
{
    int64_t now_ms = engine_enter(c);
    if (now_ms < 0)
        return NULL;
    rl_subscription *subscription = subscription_open(&c->core, channel, len, now_ms);
    engine_send_and_leave(c, NULL, now_ms);
    return subscription;
}

void rl_unsubscribe(rl_subscription *subscription)
{
    struct rl_client *c = client_of(subscription->core);
    int64_t now_ms = rl_now_ms();
    engine_lock(c);
    subscription_close(subscription, now_ms);
    engine_send_and_leave(c, NULL, now_ms);
}

int64_t rl_subscription_wakes(const rl_subscription *subscription, int32_t opened)
{
    return opened ? subscription->opened : subscription->wakes;
}

void rl_round_wake(rl_round *round)
{
    struct rl_client *c = client_of(round->core);
    engine_lock(c);
    if (round->kind->pause && !round->outcome)
        round_end(round, RL_GRANTED);
    pthread_cond_broadcast(&c->turned);
    engine_leave(c);
}

/* ---- results ---- */

static int64_t largest_extra(const rl_round *round)
{
    int64_t most = 0;
    for (int i = 0; i < round->core->n; i++) {
        const struct slot *slot = &round->slot[i];
        if (round_is_yes(slot) && slot->extra > most)
            most = slot->extra;
    }
    return most;
}

uint32_t rl_round_unseeded(const rl_round *round)
{
    /* Late answers may add to it. */
    RETURN_LOCKED(client_of(round->core), round->lease ? round->lease->unseeded : 0);
}

int rl_round_outcome(const rl_round *round)
{
    int outcome = round->outcome;
    int expired = round->kind->expired;
    return outcome == RL_GRANTED && expired && worth_ms(round) == 0 ? expired : outcome;
}

void rl_round_node(const rl_round *round, int i, rl_node_result *out)
{
    struct rl_client *c = client_of(round->core);
    const struct slot *slot = &round->slot[i];
    engine_lock(c);
    out->answered = slot->state == SLOT_ANSWERED;
    out->vote = slot->vote;
    out->code = slot->code;
    out->why = slot->why;
    out->asked = slot->state == SLOT_SENT || slot->state == SLOT_CONFIRMING;
    out->agreed = round->agreed >> i & 1;
    out->extra = slot->extra;
    out->data_len = round->outcome ? (int32_t)slot->data_len : 0;
    out->data = round_data(slot);
    engine_unlock(c);
}

void rl_round_free(rl_round *round)
{
    struct rl_client *c = client_of(round->core);
    engine_lock(c);
    int undecided = !round->outcome;
    engine_free(round);
    if (undecided)
        keeper_take_over(c);
    engine_leave(c);
}

int64_t rl_round_won(rl_round *round)
{
    struct rl_client *c = client_of(round->core);
    int64_t left_ms = round->outcome == RL_GRANTED ? worth_ms(round) : 0;
    if (left_ms <= 0)
        return 0;
    engine_lock(c);
    engine_free(round);
    engine_leave(c);
    return left_ms;
}

int64_t rl_release_done(rl_round *round)
{
    struct rl_client *c = client_of(round->core);
    struct rl_lease *lease = round->lease;
    if (round->outcome != RL_GRANTED)
        return -1;
    engine_lock(c);
    int64_t told = largest_extra(round);
    engine_free(round);
    holder_drop(lease, rl_now_ms());
    keeper_take_over(c);
    engine_leave(c);
    return told;
}

int64_t rl_remaining_ms(const rl_lease *lease)
{
    return lease_remaining_ms(lease, rl_now_ms());
}

int rl_keep(rl_lease *lease, int64_t lease_ms, int64_t max_hold_ms)
{
    struct rl_client *c = client_of(lease->core);
    if (!lease_in_range(c, lease_ms))
        return RL_CONFIG;
    engine_lock(c);
    int failed = c->core.closed || lease_void(lease) ? 0 : keeper_start(c);
    if (!failed) {
        watchdog_start(lease, lease_ms, max_hold_ms, rl_now_ms());
        engine_send(c, rl_now_ms());       /* the keeper may be in its poll */
        keeper_notice(c);
    }
    engine_unlock(c);
    return failed ? RL_NOMEM : 0;
}

int rl_lease_lost(rl_lease *lease)
{
    RETURN_LOCKED(client_of(lease->core), watchdog_lost_why(lease, rl_now_ms()));
}

int rl_set_password(rl_client *c, int i, const char *user, const char *password)
{
    engine_lock(c);
    int64_t now_ms = rl_now_ms();
    int failed = node_set_password(&c->configs[i], user, password) < 0;
    if (!failed && !c->core.closed)
        core_retry(&c->core, i, now_ms);
    engine_send(c, now_ms);
    keeper_notice(c);
    engine_unlock(c);
    return failed ? RL_NOMEM : 0;
}

int rl_lease_votes(const rl_lease *lease, int before)
{
    RETURN_LOCKED(client_of(lease->core), before ? lease->confirmed_before
                                                 : __builtin_popcount(lease->confirmed));
}

int64_t rl_lease_token(const rl_lease *lease)
{
    return lease->token;
}

void rl_lease_free(rl_lease *lease, int32_t how)
{
    static void (*const end[])(rl_lease *, int64_t) = {holder_drop, holder_abandon,
                                                       holder_orphan, holder_disown};
    struct rl_client *c = client_of(lease->core);
    engine_lock(c);
    int64_t now_ms = rl_now_ms();
    end[how](lease, now_ms);
    if (c->net.epfd >= 0) {
        if (!c->unsent_ms)
            engine_send(c, now_ms);
        keeper_take_over(c);
    }
    engine_leave(c);
}
