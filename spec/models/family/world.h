/* world.h - servers, messages and clients of the family: what all parts share. */
#ifndef WORLD_H
#define WORLD_H

#include <stdint.h>

enum { MOST = 7, CLIENTS = 6, SLOTS = 3, ENTRIES = 16, MESSAGES = 600, TOKENS = 1 << 20 };
enum { LEASE = 24, QUARANTINE = LEASE + 6, DRIFT = 1 };          /* ticks */
enum { WRITER, READER, PERMIT };
enum { TAKE, COUNT, CONFIRM, EXTEND, HEAL, DOWNGRADE, RELEASE };
enum { IDLE, TAKING, COUNTING, CONFIRMING, HOLDING, EXTENDING, DOWNGRADING };
enum { NO_ANSWER = -2, GUARDED = -1, NO, YES };

/* What can be dropped: main.c. */
enum { MAJORITY, GUARD, START, VALUE, LOOK_WRITER, LOOK_READERS, HEAL_LOOKS, SAME, STRAY,
       WITNESS, BELOW, OURS, COUNTED, EXTEND_BELOW, LEARN, NO_READER_TOKEN, HEAL_NO_VOTE,
       REPLACE, AGAIN };
extern struct rule {
    const char *name;
    int dropped;
} rules[];
#define KEEPS(rule) (!rules[rule].dropped)

struct entry {
    int value, kind, slot;   /* slot: of a permit; else 0 */
    int64_t ends;
};

struct server {
    struct entry entry[ENTRIES];
    int entries;
    int64_t back;            /* when the quarantine is over */
    int forgot;
    int counter[SLOTS], counted_for[SLOTS];
};

struct message {
    int is, server, client, round;
    int value, kind, slot, token, old;
    int64_t lease;
    int answered, vote, number;      /* number: the slot, or the counter */
};

struct client {
    int is, value, kind, slot, round, token, old;
    int64_t began, asked, valid;     /* asked: when the last round began */
    int vote[MOST], number[MOST];
    int counter[MOST], witness[MOST];
    int known[SLOTS];        /* the largest token of each slot when it began */
    int known_asked;         /* and when it asked to extend it */
};

extern struct server servers[MOST];
extern struct client clients[CLIENTS];
extern int n, quorum, permits;
extern int fenced;           /* writers and permits have tokens */
extern int timeless;         /* what is held ends at any moment */
extern int64_t now;

/* What was done. */
extern struct counts {
    long holds, tokens, extended, downgraded, healed, forgotten, together;
} done;

/* A number below the limit; whether something that is so likely comes true. */
int below(int limit);
int permille(int p);

/* Lets a server execute a request, which is its answer then. */
void execute(struct message *m);
/* A server forgets, if not too many have. What is held ends on some server. */
void forget(void);
void end_early(void);

/* Something that a client does next. */
void act(int client, int is_rw);
/* A message on its way arrives, or does not. 0: there is none. */
int deliver(void);

#endif
