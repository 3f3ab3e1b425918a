/* servers.c - what scripts do on a server, and the network. */
#include "world.h"

#include <string.h>

enum { MESSAGES = 4096 };

static struct message net[MESSAGES];
static int in_flight;

static int counter_of(const struct memory *m)
{
    if (m->counter_of == m->mark.memory && m->counter >= 0)
        return m->counter;
    return m->floor_of == m->mark.memory ? m->floor : -1;
}

static int set_counter(struct memory *m, int n)
{
    if (m->floor_of != m->mark.memory)
        return 0;
    m->counter = n;
    m->counter_of = m->mark.memory;
    if (n > m->floor)
        m->floor = n;
    return 1;
}

/* Whether the mark is the one that the message wants, which is one that has votes. */
static int passes(const struct message *m, const struct memory *k)
{
    if (!alive(m->server))
        return 0;
    if (k->mark.is == SEALED && !keeps(SEAL_SILENT))
        return k->mark.memory == m->want.memory;
    return k->mark.is == ADMITTED && same_mark(&k->mark, &m->want);
}

static void take(struct memory *k, int attempt)
{
    k->key = attempt;
    k->ends = now + LEASE;
}

static void acquire(struct message *m, struct memory *k, int holder)
{
    int c = counter_of(k);
    if (!passes(m, k) || (holder && holder != m->attempt) ||
        (!plain && k->floor_of != k->mark.memory))
        return;
    m->vote = 1;
    m->number = plain ? 1 : holder ? c : c + 1;
    if (!plain && !holder)
        set_counter(k, c + 1);
    if (plain || !holder)
        take(k, m->attempt);
}

static void confirm(struct message *m, struct memory *k, int holder)
{
    int c = counter_of(k);
    m->vote = -1;
    if (!passes(m, k) || holder != m->attempt)
        return;
    if (c <= m->token && !set_counter(k, m->token))
        return;
    m->vote = c <= m->token;
    m->number = c > m->token ? c : m->token;
}

static void extend(struct message *m, struct memory *k, int holder)
{
    if (holder != m->attempt ||
        (!plain && (counter_of(k) > m->token || !set_counter(k, m->token))))
        return;
    if (k->ends < now + LEASE)
        k->ends = now + LEASE;
    m->vote = 1;
    m->list = k->mark.list;
    m->counts = votes(m->server) ||
                (!keeps(SEAL_SILENT) && k->mark.is == SEALED && alive(m->server)) ||
                (!keeps(QUARANTINE_SILENT) && k->mark.is != RETIRED);
}

static void release(const struct message *m, struct memory *k, int holder)
{
    if (holder != m->attempt)
        return;
    if (m->token > counter_of(k))
        set_counter(k, m->token);
    k->key = 0;
}

static void heal(const struct message *m, struct memory *k, int holder)
{
    int c = counter_of(k);
    if (!holder && (plain || (c >= 0 && c <= m->token && set_counter(k, m->token))))
        take(k, m->attempt);
}

static void post(const struct message *m)
{
    if (in_flight < MESSAGES)
        net[in_flight++] = *m;
}

static void execute(struct message m)
{
    struct memory *k = &servers[m.server].now;
    int holder = k->key && k->ends > now ? k->key : 0;
    m.reply = 1;
    if (m.kind == ACQUIRE)
        acquire(&m, k, holder);
    else if (m.kind == CONFIRM)
        confirm(&m, k, holder);
    else if (m.kind == EXTEND)
        extend(&m, k, holder);
    else if (m.kind == RELEASE)
        release(&m, k, holder);
    else
        heal(&m, k, holder);
    if (m.kind != RELEASE && m.kind != HEAL)
        post(&m);
}

void send(int client, int kind, int server, int token)
{
    const struct client *c = &clients[client];
    struct message m = {.kind = kind, .client = client, .attempt = c->attempt,
                        .server = server, .token = token, .extension = c->extension};
    if (!has(c->reach, server))
        return;
    m.want = c->sights[server].mark;
    post(&m);
}

int deliver(int duplicates, int losses)
{
    if (!in_flight)
        return 0;
    int i = draw(in_flight);
    struct message m = net[i];
    if (!duplicates || draw(duplicates))
        net[i] = net[--in_flight];
    if (losses && !draw(losses))
        return 1;
    if (m.reply)
        hear(&m);
    else
        execute(m);
    return 1;
}

void forget_messages(void)
{
    in_flight = 0;
}
