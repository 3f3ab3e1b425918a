/* world.h - servers that forget, clients, changes of the list: what all parts share.
 *
 * Time is counted in ticks. Every step is drawn at random, so a message may be lost, late
 * for ever, executed twice or overtaken; whoever acts may act on what he saw long ago.
 */
#ifndef WORLD_H
#define WORLD_H

enum {
    SERVERS = 6, CLIENTS = 3, CHANGERS = 2,
    LEASE = 6,               /* ticks */
    GUARD = LEASE + 1
};

/* A list of servers (sets of bits), or one that takes the place of another: odd epochs. */
struct list {
    int epoch;               /* 0: none */
    unsigned before, after;
};

enum { NOTHING, QUARANTINED, ADMITTED, RETIRED, SEALED };

/* The marker of a server. */
struct mark {
    int is;
    int memory;              /* INC: new with each quarantine */
    int life;                /* REPLID: of the server that it was written on */
    int extra;               /* QUARANTINED: ticks observed before; SEALED: the nonce */
    struct list list;
};

/* What a server keeps, as long as it keeps anything. */
struct memory {
    struct mark mark;
    int key, ends;           /* attempt that has the lock; 0: none */
    int counter, counter_of; /* fencing; of which memory */
    int floor, floor_of;
    int promised, accepted;  /* ballots */
    struct list accepted_list;
    int seals[SERVERS];      /* nonces of others; 0: none */
};

struct server {
    struct memory now, snapshot, sealed;
    int has_snapshot, has_sealed;
    int life, process;       /* the replication id; what only a restart changes */
    int forgot;              /* and was not admitted since */
};

/* What a client saw of a server. */
struct sight {
    int known, life, since, at;                  /* since: with this very mark */
    struct mark mark;
    int promised, accepted;
};

enum { IDLE, ASKING, HOLDING };

struct client {
    struct list list;
    unsigned reach;
    int deaf;                /* learns of no new list but by an error of its own */
    struct sight sights[SERVERS];
    int is, attempt, began, until, token;
    struct list asked;       /* the list that the attempt counts by */
    unsigned grants;
    int counters[SERVERS], confirming, base;     /* base: the largest token before */
    int extension, extended; /* its number, when it began */
    unsigned votes;
    struct list vote_lists[SERVERS];
    int pupil;               /* the server whose floors are learnt; -1: none */
    int pupil_memory, lesson;
    unsigned teachers;
    struct list taught_by;
};

enum { SLEEPS, PREPARES, ACCEPTS, WAITS, VERIFIES, LEVELS, WRITES };

struct changer {
    int phase, ballot, since;
    unsigned reach, prepared, accepted, verified, levelled, written;
    int lesson;              /* the largest floor of those that were verified */
    struct list from, wish;
    int best;                /* ballot of a wish that was accepted before */
    struct list best_wish;
    int memory[SERVERS];
};

enum { ACQUIRE, CONFIRM, EXTEND, RELEASE, HEAL };

struct message {
    int kind, client, attempt, server, token, extension;
    struct mark want;
    int reply, vote, number; /* of a reply */
    struct list list;
    int counts;              /* of an extension: the server may vote */
};

/* What can be dropped, one at a time; see `rules` in main.c. */
enum rule {
    VIEW, EXTEND_VIEW, OLD_MAJORITY, JOINT, VERIFY, BALLOTS, REPLID, STRICT,
    CONSUME, SEAL_SILENT, TAUGHT, TAUGHT_ENOUGH, KEPT, LEVEL,
    GUARD_TIME, MEMORY, NEW_MAJORITY, SEED_VIEW, FRESH, PROGRESS, HEIR,
    QUARANTINE_SILENT, RULES
};
int keeps(enum rule rule);

extern struct server servers[SERVERS];
extern struct client clients[CLIENTS];
extern struct changer changers[CHANGERS];
extern int now, plain, in_use;                   /* plain: no tokens; clients in use */
extern int places;                               /* servers that there are */
enum { REPLACE, ADD, REMOVE, ANY };
extern int kind_of_change;
extern long wins, extensions, joints, changes, forgets, admissions, unseals;

int draw(int n);             /* 0 to n - 1 */
int fresh_id(void);
int count(unsigned set);
int has(unsigned set, int i);
int majority(unsigned votes, unsigned set);
int quorum(const struct list *list, unsigned votes);
int is_joint(const struct list *list);
int same_list(const struct list *a, const struct list *b);
int same_mark(const struct mark *a, const struct mark *b);
int alive(int server);       /* its mark is of its present life */
int votes(int server);       /* and it is admitted */
void violate(const char *what);

/* servers.c */
void send(int client, int kind, int server, int token);
void release_message(const struct message *message);     /* tells it to the client */
int deliver(int duplicates, int losses);                 /* one of them; 0: none is there */
void forget_messages(void);

/* clients.c */
void forget_tokens(void);
void hear(const struct message *reply);
void act(int client, int release);
void learn(int client);

/* guard.c */
void look(int client, int server);
void guard(int client, int server);
int seal(int server);

/* change.c */
void change(int changer);

#endif
