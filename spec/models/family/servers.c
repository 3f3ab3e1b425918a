/* servers.c - what the scripts do on one server, and what it forgets. */
#include <string.h>

#include "world.h"

static void drop(struct server *s, struct entry *e)
{
    *e = s->entry[--s->entries];
}

static struct entry *by_value(struct server *s, int value)
{
    for (int i = 0; i < s->entries; i++)
        if (s->entry[i].value == value)
            return &s->entry[i];
    return NULL;
}

/* The entry of a kind; for a permit: of its slot. */
static struct entry *by_kind(struct server *s, int kind, int slot)
{
    for (int i = 0; i < s->entries; i++)
        if (s->entry[i].kind == kind && s->entry[i].slot == slot)
            return &s->entry[i];
    return NULL;
}

static void forget_what_ended(struct server *s)
{
    for (int i = s->entries - 1; i >= 0; i--)
        if (s->entry[i].ends <= now)
            drop(s, &s->entry[i]);
}

static void put(struct server *s, struct message *m, int slot)
{
    if (s->entries == ENTRIES)
        return;
    s->entry[s->entries++] = (struct entry){m->value, m->kind, slot, now + m->lease};
    m->vote = YES, m->number = slot;
}

static int count(struct server *s, int slot, int value)
{
    if (!KEEPS(AGAIN) || s->counted_for[slot] != value)
        s->counter[slot]++, s->counted_for[slot] = value;
    return s->counter[slot];
}

static int free_for(struct server *s, int kind, int slot, int healing)
{
    struct entry *reader = by_kind(s, READER, 0);
    if (kind == READER)
        return !by_kind(s, WRITER, 0) || !KEEPS(LOOK_WRITER);
    if (kind == PERMIT)
        return !by_kind(s, PERMIT, slot);
    if (by_kind(s, WRITER, 0))
        return 0;
    if (reader && (healing ? KEEPS(HEAL_LOOKS) : KEEPS(LOOK_READERS)))
        return 0;
    while ((reader = by_kind(s, READER, 0)))     /* it writes over what is there */
        drop(s, reader);
    return 1;
}

static void take(struct server *s, struct message *m, struct entry *mine)
{
    int slot = 0, is_free = 0;
    if (mine) {
        m->vote = YES, m->number = mine->slot;
    } else if (m->kind == PERMIT) {
        for (int i = 0; i < permits && !is_free; i++)
            is_free = free_for(s, PERMIT, slot = (m->slot + i) % permits, 0);
    } else {
        is_free = free_for(s, m->kind, 0, 0);
    }
    if (is_free)
        put(s, m, slot);
    if (m->vote == YES && m->kind == WRITER)
        m->number = count(s, 0, m->value);
    else if (m->vote == YES && m->kind == READER)
        m->number = s->counter[0];
}

static void extend(struct server *s, struct message *m, struct entry *mine)
{
    if (mine && mine->kind == PERMIT && mine->slot != m->slot && KEEPS(STRAY))
        drop(s, mine), mine = NULL;
    if (!mine || mine->kind != m->kind)
        return;
    if (m->kind == WRITER && fenced && s->counter[0] > m->token && KEEPS(EXTEND_BELOW)) {
        m->vote = GUARDED;   /* neither a vote, nor to be healed */
        return;
    }
    if (m->kind == WRITER && s->counter[0] < m->token)
        s->counter[0] = m->token;
    if (mine->ends < now + m->lease)
        mine->ends = now + m->lease;
    m->vote = YES;
}

static void heal(struct server *s, struct message *m, struct entry *mine)
{
    int past = s->counter[0] > m->token && KEEPS(EXTEND_BELOW);
    if (mine || (m->kind == WRITER && fenced && past))
        return;
    if (!free_for(s, m->kind, m->slot, 1))
        return;
    if (m->kind == WRITER && s->counter[0] < m->token)
        s->counter[0] = m->token;
    put(s, m, m->slot);
    done.healed++;
}

static void confirm(struct server *s, struct message *m, struct entry *mine)
{
    int ours = mine && (m->kind == WRITER || mine->slot == m->slot);
    if (m->kind == WRITER ? !ours && KEEPS(OURS)
                          : s->counted_for[m->slot] != m->value && KEEPS(COUNTED))
        return;
    m->number = s->counter[m->slot];
    if (m->number > m->token && KEEPS(BELOW))
        return;              /* no, with the counter */
    if (m->number < m->token)
        s->counter[m->slot] = m->token;
    m->vote = YES;
}

static void downgrade(struct server *s, struct message *m, struct entry *mine)
{
    struct entry *old = by_value(s, m->old);
    if (mine) {
        m->vote = YES;
    } else if (old && old->kind == WRITER) {
        drop(s, old);
        put(s, m, 0);
    } else if (!KEEPS(REPLACE) && !by_kind(s, WRITER, 0)) {
        put(s, m, 0);
    }
}

static void let_go(struct server *s, struct message *m, struct entry *mine)
{
    if (!mine && !KEEPS(VALUE))
        mine = m->kind == PERMIT ? by_kind(s, PERMIT, m->slot)
                                 : s->entries ? &s->entry[0] : NULL;
    if (mine)
        drop(s, mine);
}

/* Who comes back has a counter that no token of a majority is above. */
static void come_back(struct server *s)
{
    int others = 0, enough = n - quorum + 1, first = below(n), most[SLOTS] = {0};
    for (int k = 0; k < n && others < enough; k++) {
        int i = (first + k) % n;
        if (&servers[i] == s || servers[i].forgot)
            continue;
        others++;
        for (int slot = 0; slot < SLOTS; slot++)
            if (servers[i].counter[slot] > most[slot])
                most[slot] = servers[i].counter[slot];
    }
    if (KEEPS(LEARN) && others < enough)
        return;              /* it has no vote until there are enough */
    memcpy(s->counter, KEEPS(LEARN) ? most : (int[SLOTS]){0}, sizeof(s->counter));
    s->forgot = 0;
}

void execute(struct message *m)
{
    struct server *s = &servers[m->server];
    forget_what_ended(s);
    if (s->forgot && now >= s->back)
        come_back(s);
    struct entry *mine = by_value(s, m->value);
    m->answered = 1, m->vote = NO, m->number = 0;
    if (s->forgot && m->is != RELEASE && KEEPS(GUARD)) {
        m->vote = GUARDED;
        return;
    }
    switch (m->is) {
    case TAKE: take(s, m, mine); break;
    case EXTEND: extend(s, m, mine); break;
    case HEAL: heal(s, m, mine); break;
    case DOWNGRADE: downgrade(s, m, mine); break;
    case RELEASE: let_go(s, m, mine); break;
    case CONFIRM: confirm(s, m, mine); break;
    case COUNT:
        if (mine && mine->slot == m->slot)
            m->vote = YES, m->number = count(s, m->slot, m->value);
        break;
    }
}

void forget(void)
{
    int away = 0;
    for (int i = 0; i < n; i++)
        away += servers[i].forgot;
    if (away >= n - quorum)
        return;
    struct server *s = &servers[below(n)];
    memset(s, 0, sizeof(*s));
    s->forgot = 1;
    s->back = now + (KEEPS(GUARD) ? QUARANTINE : 0);
    done.forgotten++;
}

void end_early(void)
{
    struct server *s = &servers[below(n)];
    if (s->entries)
        drop(s, &s->entry[below(s->entries)]);
}
