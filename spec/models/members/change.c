/* change.c - who changes the list: prepare, accept, wait, verify, level, write. */
#include "world.h"

static int ballots = 2;

/* One server is added, taken out, or replaced. */
static unsigned wish_for(unsigned list)
{
    int how = kind_of_change == ANY ? draw(ANY) : kind_of_change;
    int in = draw(places), out = draw(places);
    unsigned full = (1u << places) - 1;
    while (!has(list, in))
        in = draw(places);
    if (list == full)
        return how == REMOVE && count(list) > 2 ? list & ~(1u << in) : list;
    while (has(list, out))
        out = draw(places);
    if (how == ADD && count(list) < 5)
        return list | 1u << out;
    if (how == REMOVE && count(list) > 2)
        return list & ~(1u << in);
    return (list & ~(1u << in)) | 1u << out;
}

static void stop(struct changer *ch)
{
    ch->phase = SLEEPS;
}

static void begin(struct changer *ch)
{
    struct list newest = {0};
    for (int s = 0; s < places; s++) {
        const struct mark *mark = &servers[s].now.mark;
        if (has(ch->reach, s) && alive(s) && (mark->is == ADMITTED || mark->is == RETIRED) &&
            mark->list.epoch > newest.epoch)
            newest = mark->list;
    }
    if (!newest.epoch || (!is_joint(&newest) && draw(3)))
        return;
    unsigned reach = ch->reach, old = is_joint(&newest) ? newest.before : newest.after;
    int from = newest.epoch - is_joint(&newest);
    *ch = (struct changer){.phase = PREPARES, .since = now, .reach = reach,
                           .from = {from, old, old}};
    unsigned wish = wish_for(old);
    ch->wish = (struct list){from + 1, old, wish};
    ch->ballot = ++ballots * 4 + (int)(ch - changers) - (draw(3) ? 0 : 8);
    if (ch->ballot < 1)
        ch->ballot = 1 + (int)(ch - changers);
    if (!keeps(JOINT)) {
        ch->phase = WRITES;
        ch->wish = (struct list){from + 2, wish, wish};
    }
}

/* Reads with the ballot, so that a smaller one is not accepted behind it. */
static void prepare(struct changer *ch, int s)
{
    struct memory *k = &servers[s].now;
    int epoch = k->mark.list.epoch;
    if (now - ch->since >= LEASE || (has(ch->reach, s) && votes(s) && epoch > ch->wish.epoch)) {
        stop(ch);
        return;
    }
    if (!has(ch->reach & ch->from.after & ~ch->prepared, s) || !votes(s) ||
        epoch < ch->from.epoch)
        return;
    if (keeps(BALLOTS) && k->promised >= ch->ballot) {
        if (!draw(4))
            stop(ch);
        return;
    }
    if (k->promised < ch->ballot)
        k->promised = ch->ballot;
    ch->prepared |= 1u << s;
    ch->memory[s] = k->mark.memory;
    if (k->accepted > ch->best && epoch == ch->wish.epoch && keeps(BALLOTS)) {
        ch->best = k->accepted;
        ch->best_wish = k->accepted_list;
    }
    if (majority(ch->prepared, ch->from.after) &&
        (ch->prepared == ch->from.after || !draw(3))) {
        if (ch->best)
            ch->wish = ch->best_wish;
        ch->phase = ACCEPTS;
    }
}

static int may_accept(const struct changer *ch, int s)
{
    const struct memory *k = &servers[s].now;
    return (!keeps(MEMORY) || k->mark.memory == ch->memory[s]) &&
           k->mark.list.epoch <= ch->wish.epoch && k->mark.list.epoch >= ch->from.epoch &&
           (!keeps(BALLOTS) || k->promised <= ch->ballot);
}

static void accept(struct changer *ch, int s)
{
    struct memory *k = &servers[s].now;
    k->promised = k->accepted = ch->ballot;
    k->accepted_list = k->mark.list = ch->wish;
    ch->accepted |= 1u << s;
    ch->memory[s] = k->mark.memory;
}

static void accepts(struct changer *ch, int s)
{
    if (!has(ch->reach & ch->prepared & ~ch->accepted, s) || !votes(s)) {
        if (!draw(24))
            stop(ch);
        return;
    }
    if (!may_accept(ch, s)) {
        stop(ch);
        return;
    }
    accept(ch, s);
    if (majority(ch->accepted, ch->from.after)) {
        ch->phase = WAITS;
        ch->since = now;
        joints++;
    }
}

static void begin_writing(struct changer *ch)
{
    ch->phase = WRITES;
    ch->wish = (struct list){ch->wish.epoch + 1, ch->wish.after, ch->wish.after};
    ch->written = 0;
}

/* A server that comes later starts the time anew. */
static void waits(struct changer *ch, int s)
{
    if (has(ch->reach & ch->prepared & ~ch->accepted, s) && votes(s) && may_accept(ch, s) &&
        servers[s].now.mark.memory == ch->memory[s]) {
        accept(ch, s);
        ch->since = now;
    }
    if (keeps(GUARD_TIME) && now - ch->since < GUARD)
        return;
    if (keeps(VERIFY))
        ch->phase = VERIFIES;
    else
        begin_writing(ch);
}

/* The same memory has it still; and of those that stay there are more than a majority can
 * miss, all with floors. */
static void verify(struct changer *ch, int s)
{
    const struct memory *k = &servers[s].now;
    unsigned from = ch->from.after;
    int kept = count(from) - (count(from) / 2 + 1) + 1;
    if (!has(ch->reach & ch->accepted, s))
        return;
    if (!votes(s) || k->mark.memory != ch->memory[s] || !same_list(&k->mark.list, &ch->wish)) {
        stop(ch);
        return;
    }
    int seeded = plain || k->floor_of == k->mark.memory;
    if (seeded)
        ch->verified |= 1u << s;
    if (seeded && k->floor > ch->lesson)
        ch->lesson = k->floor;
    if (seeded && majority(ch->verified, from) &&
        (!keeps(KEPT) || count(ch->verified & ch->wish.after) >= kept))
        ch->phase = LEVELS;
    else if (!draw(30))
        stop(ch);
}

/* A server that leaves takes along that it witnessed tokens: a majority of the new list
 * hears of them, and goes on from there. */
static void level(struct changer *ch, int s)
{
    struct memory *k = &servers[s].now;
    if (plain || !keeps(LEVEL)) {
        begin_writing(ch);
        return;
    }
    if (!has(ch->reach & ch->wish.after, s) || !votes(s) ||
        !same_list(&k->mark.list, &ch->wish) || k->floor_of != k->mark.memory) {
        if (!draw(30))
            stop(ch);
        return;
    }
    if (ch->lesson > k->floor)
        k->floor = ch->lesson;
    k->counter = -1;
    ch->levelled |= 1u << s;
    if (majority(ch->levelled, ch->wish.after))
        begin_writing(ch);
}

static void writes(struct changer *ch, int s)
{
    struct memory *k = &servers[s].now;
    if (!has(ch->reach, s))
        return;
    if (votes(s) && k->mark.list.epoch < ch->wish.epoch) {
        k->mark.list = ch->wish;
        k->accepted = 0;
        if (!has(ch->wish.after, s))
            k->mark.is = RETIRED;
    }
    if (same_list(&k->mark.list, &ch->wish))
        ch->written |= 1u << s;
    if (majority(ch->written, ch->wish.after) && !draw(8)) {
        stop(ch);
        changes++;
    }
}

/* The next step, at a server that is drawn; or the changer dies. */
void change(int changer)
{
    struct changer *ch = &changers[changer];
    int s = draw(places);
    if (ch->phase != SLEEPS && !draw(60))
        stop(ch);
    else if (ch->phase == SLEEPS)
        begin(ch);
    else if (ch->phase == PREPARES)
        prepare(ch, s);
    else if (ch->phase == ACCEPTS)
        accepts(ch, s);
    else if (ch->phase == WAITS)
        waits(ch, s);
    else if (ch->phase == VERIFIES)
        verify(ch, s);
    else if (ch->phase == LEVELS)
        level(ch, s);
    else
        writes(ch, s);
}
