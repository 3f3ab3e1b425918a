/* clients.c - a lock's way: attempts, witnesses of tokens, extensions; floors. */
#include "world.h"

static int largest_token;
static int issued[1 << 16];

void forget_tokens(void)
{
    for (int i = 0; i <= largest_token; i++)
        issued[i] = 0;
    largest_token = 0;
}

static void check_exclusive(int client)
{
    for (int i = 0; i < CLIENTS; i++)
        if (i != client && clients[i].is == HOLDING && clients[i].until > now &&
            clients[client].until > now)
            violate("two holders");
}

static void check_token(const struct client *c)
{
    if (plain)
        return;
    if (issued[c->token] || c->token <= c->base)
        violate("a token repeats, or goes back");
    issued[c->token] = 1;
    if (c->token > largest_token)
        largest_token = c->token;
}

/* The attempt is decided when a majority has witnessed the largest counter. */
static void decide(int client)
{
    struct client *c = &clients[client];
    int most = 0;
    unsigned witnesses = 0;
    if (!quorum(&c->asked, c->grants))
        return;
    for (int s = 0; s < places; s++)
        if (has(c->grants, s) && c->counters[s] > most)
            most = c->counters[s];
    for (int s = 0; s < places; s++)
        if (has(c->grants, s) && c->counters[s] == most)
            witnesses |= 1u << s;
    if (quorum(&c->asked, witnesses)) {
        c->is = now < c->began + LEASE ? HOLDING : IDLE;
        if (c->is == IDLE)
            return;
        c->token = most;
        c->until = c->began + LEASE;
        c->extension = 0;
        wins++;
        check_token(c);
        check_exclusive(client);
    } else if (c->confirming != most) {
        c->confirming = most;
        for (int s = 0; s < places; s++)
            if (has(c->grants, s) && c->counters[s] < most)
                send(client, CONFIRM, s, most);
    }
}

static void hear_extension(int client, const struct message *m)
{
    struct client *c = &clients[client];
    unsigned yes = 0;
    if (!m->counts)
        return;
    c->votes |= 1u << m->server;
    c->vote_lists[m->server] = m->list;
    if (!c->deaf && m->list.epoch > c->list.epoch)
        c->list = m->list;
    struct list list = keeps(EXTEND_VIEW) ? c->list : c->asked;
    for (int s = 0; s < places; s++)
        if (has(c->votes, s) &&
            (!keeps(EXTEND_VIEW) || same_list(&c->vote_lists[s], &list)))
            yes |= 1u << s;
    if (!quorum(&list, yes) || now >= c->until || c->extended + LEASE <= c->until)
        return;
    c->until = c->extended + LEASE;
    extensions++;
    check_exclusive(client);
    for (int s = 0; s < places; s++)
        if (has((c->list.before | c->list.after) & ~c->votes, s))
            send(client, HEAL, s, c->token);
}

void hear(const struct message *m)
{
    struct client *c = &clients[m->client];
    int s = m->server;
    if (m->attempt != c->attempt)
        return;
    if (m->kind == ACQUIRE && c->is == ASKING && m->vote == 1) {
        if (!has(c->grants, s)) {
            c->grants |= 1u << s;
            c->counters[s] = m->number;
            if (c->counters[s] < c->confirming)
                send(m->client, CONFIRM, s, c->confirming);
        }
        decide(m->client);
    } else if (m->kind == CONFIRM && c->is == ASKING &&
               (m->vote == 0 || (m->vote == 1 && m->token == c->confirming))) {
        if (m->number > c->counters[s])
            c->counters[s] = m->number;
        decide(m->client);
    } else if (m->kind == EXTEND && c->is == HOLDING && m->vote == 1 &&
               m->extension == c->extension) {
        hear_extension(m->client, m);
    }
}

static void begin(int client)
{
    struct client *c = &clients[client];
    unsigned can = 0;
    for (int s = 0; s < places; s++) {
        const struct sight *seen = &c->sights[s];
        if (has((c->list.before | c->list.after) & c->reach, s) && seen->known &&
            seen->mark.is == ADMITTED &&
            (!keeps(VIEW) || same_list(&seen->mark.list, &c->list)))
            can |= 1u << s;
    }
    if (!c->list.epoch || !quorum(&c->list, can))
        return;
    c->is = ASKING;
    c->attempt = fresh_id();
    c->began = now;
    c->asked = c->list;
    c->grants = 0;
    c->confirming = 0;
    c->base = largest_token;
    for (int s = 0; s < places; s++)
        if (has(can, s))
            send(client, ACQUIRE, s, 0);
}

static void give_up(int client, int token)
{
    for (int s = 0; s < places; s++)
        send(client, RELEASE, s, token);
    clients[client].is = IDLE;
}

static void begin_extension(int client)
{
    struct client *c = &clients[client];
    if (c->extended == now && draw(6))
        return;
    c->extension = fresh_id();
    c->extended = now;
    c->votes = 0;
    unsigned all = c->list.before | c->list.after | c->asked.before | c->asked.after;
    for (int s = 0; s < places; s++)
        if (has(all, s))
            send(client, EXTEND, s, c->token);
}

void act(int client, int release)
{
    struct client *c = &clients[client];
    if (c->is == IDLE)
        begin(client);
    else if (c->is == ASKING && (now >= c->began + LEASE || !draw(5)))
        give_up(client, 0);
    else if (c->is == HOLDING && draw(100) < release)
        give_up(client, c->token);
    else if (c->is == HOLDING)
        begin_extension(client);
}

/* ---- floors ---- */

static unsigned base_of(const struct list *list)
{
    return is_joint(list) ? list->before : list->after;
}

static int needs_floor(const struct client *c, int s)
{
    return has(c->reach, s) && votes(s) &&
           same_list(&servers[s].now.mark.list, &c->list) &&
           servers[s].now.floor_of != servers[s].now.mark.memory;
}

static void teach(struct client *c)
{
    struct memory *k = &servers[c->pupil].now;
    if (needs_floor(c, c->pupil) && k->mark.memory == c->pupil_memory) {
        k->floor_of = k->mark.memory;
        if (c->lesson > k->floor)
            k->floor = c->lesson;
        k->counter = -1;
    }
    c->pupil = -1;
}

/* A step of teaching a server what tokens were given out, from N - q + 1 others. */
void learn(int client)
{
    struct client *c = &clients[client];
    unsigned base = base_of(&c->list);
    int s = draw(places), n = count(base), wanted = n - (n / 2 + 1) + 1;
    if (c->pupil < 0) {
        if (has(base, s) && c->sights[s].known && needs_floor(c, s)) {
            c->pupil = s;
            c->pupil_memory = servers[s].now.mark.memory;
            c->teachers = 0;
            c->lesson = 0;
            c->taught_by = c->list;
        }
        return;
    }
    wanted = !keeps(TAUGHT) ? 0 : !keeps(TAUGHT_ENOUGH) && wanted > 1 ? wanted - 1 : wanted;
    if (!draw(30) || !same_list(&c->list, &c->taught_by))
        c->pupil = -1;
    else if (count(c->teachers) >= wanted)
        teach(c);
    else if (s != c->pupil && has(c->reach & ~c->teachers, s)) {
        const struct memory *k = &servers[s].now;
        int ours = keeps(SEED_VIEW) ? votes(s) && has(base, s) &&
                                      same_list(&k->mark.list, &c->list)
                                    : votes(s) || (alive(s) && k->mark.is == RETIRED);
        if (!ours || k->floor_of != k->mark.memory)
            return;
        c->teachers |= 1u << s;
        if (k->floor > c->lesson)
            c->lesson = k->floor;
    }
}
