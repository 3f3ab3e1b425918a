/* guard.c - who admits a server that may have forgotten, and who unseals one. */
#include "world.h"

void look(int client, int server)
{
    struct client *c = &clients[client];
    struct sight *seen = &c->sights[server];
    const struct memory *k = &servers[server].now;
    int life = keeps(REPLID) ? servers[server].life : servers[server].process;
    if (!has(c->reach, server))
        return;
    if (!seen->known || !same_mark(&seen->mark, &k->mark) || seen->life != life)
        seen->since = now;
    seen->known = 1;
    seen->at = now;
    seen->life = life;
    seen->mark = k->mark;
    seen->promised = k->promised;
    seen->accepted = k->accepted;
    if (!c->deaf && (k->mark.is == ADMITTED || k->mark.is == RETIRED) &&
        k->mark.life == life && k->mark.list.epoch > c->list.epoch)
        c->list = k->mark.list;
}

static int swap_mark(int server, const struct mark *from, const struct mark *to)
{
    struct mark *mark = &servers[server].now.mark;
    if (!same_mark(mark, from))
        return 0;
    *mark = *to;
    return 1;
}

static void votes_again(int server)
{
    if (alive(server))
        servers[server].forgot = 0;
}

static unsigned base_of(const struct list *list)
{
    return is_joint(list) ? list->before : list->after;
}

/* ---- seals ---- */

/* A number for the next life, which is told to a majority of the others first. */
int seal(int server)
{
    struct memory *k = &servers[server].now;
    unsigned others = k->mark.list.after & ~(1u << server);
    int told = 0, nonce = fresh_id();
    if (!votes(server) || is_joint(&k->mark.list) || servers[server].forgot)
        return 0;
    for (int s = 0; s < places; s++)
        if (has(others, s) && votes(s)) {
            servers[s].now.seals[server] = nonce;
            told++;
        }
    if (told < count(k->mark.list.after) / 2 + 1)
        return 0;
    k->mark.is = SEALED;
    k->mark.extra = nonce;
    return 1;
}

/* The same number on a majority of others, each of which forgets it by this: once only. */
static int consume(const struct client *c, int server, int nonce)
{
    unsigned others = c->list.after & ~(1u << server);
    int told = 0;
    for (int s = 0; s < places; s++)
        if (has(others & c->reach, s) && votes(s) && servers[s].now.seals[server] == nonce) {
            servers[s].now.seals[server] = 0;
            told++;
        }
    return told >= count(c->list.after) / 2 + 1 || !keeps(CONSUME);
}

/* 1: there is nothing else to do with the server now. */
static int unseal(struct client *c, int server)
{
    const struct sight *seen = &c->sights[server];
    struct mark to = seen->mark;
    if (is_joint(&c->list) || !has(c->list.after, server))
        return 1;
    if (!consume(c, server, seen->mark.extra))
        return 0;
    to.is = ADMITTED;
    to.life = seen->life;
    to.extra = 0;
    if (swap_mark(server, &seen->mark, &to)) {
        votes_again(server);
        unseals++;
    }
    return 1;
}

/* ---- quarantine ---- */

/* What of others was seen when the quarantine was over. */
struct others {
    int admitted, quarantined, known, other_list, promised, accepted;
    int of_base;             /* of those that are admitted */
};

static struct others look_around(const struct client *c, int server, unsigned base)
{
    unsigned all = base | c->list.after;
    struct others o = {0};
    const struct sight *me = &c->sights[server];
    for (int s = 0; s < places; s++) {
        const struct sight *seen = &c->sights[s];
        int life = seen->mark.life == seen->life;
        if (s == server || !has(all, s) || !seen->known)
            continue;
        o.known += has(base, s) ? 1 : 0;
        if (keeps(FRESH) && seen->at < me->since + GUARD - me->mark.extra)
            continue;
        if (seen->promised > o.promised)
            o.promised = seen->promised;
        if (same_list(&seen->mark.list, &c->list) && seen->accepted > o.accepted)
            o.accepted = seen->accepted;
        if (life && seen->mark.is == ADMITTED && same_list(&seen->mark.list, &c->list)) {
            o.admitted++;
            o.of_base += has(base, s) ? 1 : 0;
        } else if (life && seen->mark.is == QUARANTINED)
            o.quarantined++;
        else
            o.other_list++;
    }
    return o;
}

static void admit(struct client *c, int server)
{
    unsigned base = base_of(&c->list);
    const struct sight *seen = &c->sights[server];
    struct memory *k = &servers[server].now;
    if (!c->list.epoch || !has(base, server))
        return;
    struct others o = look_around(c, server, base);
    int q = count(base) / 2 + 1;
    int may = o.of_base >= q ||
              (!o.other_list && o.admitted + o.quarantined == count(base | c->list.after) - 1);
    if (!keeps(STRICT))
        may = o.known + 1 >= q;
    struct mark to = seen->mark;
    to.is = ADMITTED;
    to.list = c->list;
    to.extra = 0;
    if (!may || !swap_mark(server, &seen->mark, &to))
        return;
    if (keeps(HEIR) && k->promised < o.promised)
        k->promised = o.promised;
    if (is_joint(&c->list)) {
        k->accepted = o.accepted;
        k->accepted_list = c->list;
    }
    votes_again(server);
    admissions++;
}

/* Leaves what was observed so far to whoever goes on. */
static void note_progress(struct client *c, int server, int observed)
{
    const struct sight *seen = &c->sights[server];
    struct mark *mark = &servers[server].now.mark, to = seen->mark;
    to.extra += observed;
    if (keeps(PROGRESS))
        swap_mark(server, &seen->mark, &to);
    else if (mark->is == QUARANTINED && mark->memory == seen->mark.memory)
        mark->extra += observed;
}

static void catch_up(struct client *c, int server)
{
    const struct sight *seen = &c->sights[server];
    unsigned list = c->list.after | c->list.before;
    struct mark to = seen->mark;
    if (c->list.epoch <= seen->mark.list.epoch)
        return;
    to.list = c->list;
    to.is = has(list, server) ? ADMITTED : RETIRED;
    swap_mark(server, &seen->mark, &to);
}

/* Does for the server what its mark, as it was seen, asks for. */
void guard(int client, int server)
{
    struct client *c = &clients[client];
    const struct sight *seen = &c->sights[server];
    int ours = seen->mark.life == seen->life;
    if (!seen->known || !has(c->reach, server) ||
        (seen->mark.is == SEALED && !ours && unseal(c, server)))
        return;
    if (seen->mark.is == NOTHING || !ours) {
        struct mark to = {.is = QUARANTINED, .memory = fresh_id(), .life = seen->life};
        swap_mark(server, &seen->mark, &to);
    } else if (seen->mark.is == QUARANTINED) {
        int observed = now - seen->since;
        if (observed > 0 && observed < GUARD && !draw(4))
            note_progress(c, server, observed);
        else if (seen->mark.extra + observed >= GUARD)
            admit(c, server);
    } else if (seen->mark.is == ADMITTED) {
        catch_up(c, server);
    }
}
