/* clients.c - who takes, keeps and lets go; and what must not come of it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

static struct message net[MESSAGES];
static int messages, values;
static int largest[SLOTS], last_read;            /* tokens that were given */
static uint8_t given[SLOTS][TOKENS];

static void violated(const char *what)
{
    printf("counterexample: %s, after %ld holds and %ld tokens\n", what, done.holds,
           done.tokens);
    exit(0);
}

static void send_to(int i, int client, int is, int64_t lease)
{
    struct client *c = &clients[client];
    if (messages == MESSAGES)
        net[below(MESSAGES)] = net[--messages];
    net[messages++] = (struct message){.is = is, .server = i, .client = client,
        .round = c->round, .value = c->value, .kind = c->kind, .slot = c->slot,
        .token = c->token, .old = c->old, .lease = lease};
}

static void begin_round(int client, int is)
{
    struct client *c = &clients[client];
    c->round++;
    c->asked = now;
    for (int i = 0; i < n; i++) {
        c->vote[i] = NO_ANSWER;
        send_to(i, client, is, LEASE);
    }
}

static void leave(int client)
{
    struct client *c = &clients[client];
    c->round++;
    for (int i = 0; i < n; i++) {
        send_to(i, client, RELEASE, 0);
        if (c->old) {
            int value = c->value;
            c->value = c->old;
            send_to(i, client, RELEASE, 0);
            c->value = value;
        }
    }
    c->is = IDLE, c->valid = 0;
}

static void check_holders(void)
{
    int writers = 0, readers = 0, all = 0, slots[SLOTS] = {0};
    for (int i = 0; i < CLIENTS; i++) {
        struct client *c = &clients[i];
        if (c->is < HOLDING || now >= c->valid)
            continue;
        all++;
        writers += c->kind == WRITER, readers += c->kind == READER;
        if (c->kind == PERMIT && ++slots[c->slot] > 1 && !timeless)
            violated("two holders of one slot");
    }
    if ((writers > 1 || (writers && readers)) && !timeless)
        violated("two holders beside a writer");
    if (all > permits && permits && !timeless)
        violated("more holders than permits");
    done.together += all > 1;
}

static int64_t end_of(struct client *c)
{
    return (KEEPS(START) ? c->asked : now) + LEASE - DRIFT;
}

static void hold(int client)
{
    struct client *c = &clients[client];
    if (now >= c->valid) {
        leave(client);
        return;
    }
    c->is = HOLDING;
    done.holds++;
    check_holders();
    if (c->kind == READER && !KEEPS(NO_READER_TOKEN) && c->token > last_read)
        last_read = c->token;
    if (c->kind == READER || !fenced)
        return;
    int slot = c->slot;
    if (c->token >= TOKENS || given[slot][c->token])
        violated("a token twice");
    if (c->token <= c->known[slot])
        violated("a token that is not larger than one before");
    given[slot][c->token] = 1;
    largest[slot] = c->token > largest[slot] ? c->token : largest[slot];
    done.tokens++;
}

/* Asks those who counted less to confirm the largest. */
static void try_token(int client)
{
    struct client *c = &clients[client];
    int counters = 0, most = c->token;
    for (int i = 0; i < n; i++) {
        counters += c->counter[i] > 0;
        most = c->counter[i] > most ? c->counter[i] : most;
    }
    if (counters < quorum)
        return;
    if (!KEEPS(WITNESS)) {
        c->token = most;
        hold(client);
        return;
    }
    int raised = most > c->token || c->is != CONFIRMING, witnesses = 0;
    c->token = most, c->is = CONFIRMING;
    for (int i = 0; i < n; i++) {
        if (raised)
            c->witness[i] = 0;
        if (c->counter[i] == most)
            c->witness[i] = 1;
        else if (raised)
            send_to(i, client, CONFIRM, 0);
        witnesses += c->witness[i];
    }
    if (witnesses >= quorum)
        hold(client);
}

static int votes_for(struct client *c, int slot)
{
    int votes = 0;
    for (int i = 0; i < n; i++)
        votes += c->vote[i] == YES && (slot < 0 || c->number[i] == slot);
    return votes;
}

/* A majority has granted it. @return whether */
static int is_taken(struct client *c)
{
    if (votes_for(c, -1) < quorum)
        return 0;
    if (c->kind != PERMIT)
        return 1;
    for (int slot = 0; slot < permits; slot++)
        if (votes_for(c, slot) >= (KEEPS(SAME) ? quorum : 1)) {
            c->slot = slot;
            return 1;
        }
    return 0;
}

static void take_answer(int client, struct message *m)
{
    struct client *c = &clients[client];
    int i = m->server;
    if (m->is == CONFIRM) {
        if (c->is != CONFIRMING || m->token != c->token)
            return;
        if (m->vote == YES)
            c->witness[i] = 1, c->counter[i] = c->token;
        else if (m->number > c->token)
            c->counter[i] = 1, c->token = m->number, c->is = COUNTING;
        try_token(client);
        return;
    }
    if (c->vote[i] != NO_ANSWER || m->is == HEAL)
        return;
    c->vote[i] = m->vote, c->number[i] = m->number;
    int counts = m->is == COUNT || (m->is == TAKE && c->kind == WRITER && fenced);
    if (counts && m->vote == YES && c->is < HOLDING) {
        c->counter[i] = m->number;
        try_token(client);
    }
}

static void start(int client, int is_rw)
{
    struct client *c = &clients[client];
    int round = c->round;
    memset(c, 0, sizeof(*c));
    c->round = round;
    c->value = ++values;
    c->kind = !is_rw ? PERMIT : below(10) < (timeless ? 2 : 5) ? READER : WRITER;
    c->slot = is_rw ? 0 : below(permits);
    c->is = TAKING, c->began = now;
    memcpy(c->known, largest, sizeof(largest));
    if (c->kind == WRITER && last_read > c->known[0])
        c->known[0] = last_read;
    begin_round(client, TAKE);
    c->valid = end_of(c);
}

static void taken(int client)
{
    struct client *c = &clients[client];
    if (!KEEPS(START))
        c->valid = now + LEASE - DRIFT;
    if (c->kind == PERMIT && fenced) {
        c->is = COUNTING;
        int64_t asked = c->asked;
        begin_round(client, COUNT);
        c->asked = asked;
    } else if (c->kind != WRITER || !fenced) {
        for (int i = 0; i < n; i++)
            if (c->vote[i] == YES && c->number[i] > c->token)
                c->token = c->number[i];
        hold(client);
    }
}

static void extend_answered(int client)
{
    struct client *c = &clients[client];
    int64_t left = c->asked + LEASE - now;
    c->is = HOLDING;
    if (c->kind == WRITER && fenced && c->token < c->known_asked)
        violated("an extension behind a larger token");
    c->valid = end_of(c) > c->valid ? end_of(c) : c->valid;
    done.extended++;
    for (int i = 0; i < n; i++)
        if (c->vote[i] == NO && left > 0)
            send_to(i, client, HEAL, left);
    check_holders();
}

/* Whoever is healed counts as one more vote, which no rule but that one forbids. */
static void heal_counts(int client)
{
    struct client *c = &clients[client];
    int64_t left = c->asked + LEASE - now;
    for (int i = 0; i < n; i++)
        if (c->vote[i] == NO && left > 0) {
            c->vote[i] = NO_ANSWER;
            send_to(i, client, HEAL, left);
            net[messages - 1].is = TAKE;
        }
}

static void act_holding(int client)
{
    struct client *c = &clients[client];
    int what = below(100);
    if (now >= c->valid) {
        if (permille(100))
            leave(client);
    } else if (what < 12) {
        leave(client);
    } else if (what < 30) {
        c->is = EXTENDING;
        c->known_asked = largest[c->slot];
        begin_round(client, EXTEND);
    } else if (c->kind == WRITER && what < 40) {
        c->old = c->value, c->value = ++values;
        c->kind = READER, c->valid = 0, c->is = DOWNGRADING;
        begin_round(client, DOWNGRADE);
    }
}

void act(int client, int is_rw)
{
    struct client *c = &clients[client];
    switch (c->is) {
    case IDLE:
        if (permille(300))
            start(client, is_rw);
        return;
    case TAKING:
        if (is_taken(c))
            taken(client);
        else if (permille(60))
            leave(client);
        return;
    case COUNTING: case CONFIRMING:
        if (permille(30) || now >= c->valid)
            leave(client);
        return;
    case HOLDING:
        act_holding(client);
        return;
    case EXTENDING:
        if (votes_for(c, -1) >= quorum && now < c->valid)
            extend_answered(client);
        else if (now >= c->valid || permille(50))
            c->is = HOLDING;
        else if (!KEEPS(HEAL_NO_VOTE))
            heal_counts(client);
        return;
    case DOWNGRADING:
        c->valid = 0;
        if (votes_for(c, -1) >= quorum && now < end_of(c)) {
            c->is = HOLDING, c->valid = end_of(c), c->old = 0;
            done.downgraded++;
            check_holders();
        } else if (now >= end_of(c) || permille(30)) {
            leave(client);
        }
    }
}

/* ---- messages ---- */

int deliver(void)
{
    if (!messages)
        return 0;
    int k = below(messages);
    struct message m = net[k];
    if (m.answered || !permille(30))             /* else it is executed again, later */
        net[k] = net[--messages];
    if (permille(60))
        return 1;                                /* lost */
    if (!m.answered) {
        execute(&m);
        if (messages < MESSAGES)
            net[messages++] = m;
    } else if (m.round == clients[m.client].round) {
        take_answer(m.client, &m);
    }
    return 1;
}
