/* link.c - connections: bytes on their way, in order within each direction. */
#include "world/world.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "node/buf.h"

enum {
    CONNECTIONS = 4096,
    BACKLOG = 64                  /* given up, that the system of a frozen server keeps for it */
};
static const int64_t NEVER_US = (int64_t)1 << 59;

/* One direction. The buffer holds what was sent and not read yet; offsets count from the
 * beginning of the connection. */
struct stream {
    struct buf buf;
    uint64_t arrived;             /* the receiver may read up to here */
    uint64_t cut;                 /* nothing after this offset arrives any more */
    uint64_t sent;                /* replies after this wait until the server is done */
    int64_t last_us;              /* when the last of it arrives */
    int ended;                    /* the receiver sees the end */
};

struct conn_v {
    int process, server, link;
    int handle;                   /* differs from those of earlier users of this entry */
    int used;
    int events;                   /* pending */
    int client, served;           /* which ends are open */
    int64_t given_up_us;          /* when the client closed its end */
    int state;                    /* link_state() */
    int blocked;                  /* the window was full: the client waits for room */
    int serve_queued;
    struct stream up, down;
};

struct server_v {
    int state;
    int64_t cost_us;
    int64_t busy_until_us;
};

struct path {
    int64_t least_us, spread_us;
    int64_t up_until_us, down_until_us;
    int window;
};

static struct conn_v conns[CONNECTIONS];
static int used;                  /* how many entries of conns this world has used */
static struct server_v servers[SIM_SERVERS];
static struct path paths[SIM_PROCESSES][SIM_SERVERS];
static int serving = -1;          /* the connection whose command Lua executes */

static struct path *path_of(const struct conn_v *v)
{
    return &paths[v->process][v->server];
}

static int index_of(const struct conn_v *v)
{
    return (int)(v - conns);
}

/* NULL: the connection is gone. */
static struct conn_v *conn_of(int handle)
{
    struct conn_v *v = &conns[handle % CONNECTIONS];
    return v->used && v->handle == handle ? v : NULL;
}

void links_reset(void)
{
    for (int i = 0; i < used; i++) {
        conns[i].used = 0;
        conns[i].handle = 0;
    }
    used = 0;
    serving = -1;
    memset(paths, 0, sizeof(paths));
    memset(servers, 0, sizeof(servers));
}

/* ---- sending ---- */

static void push(struct conn_v *v, int64_t at_us, enum event_kind kind, uint64_t b)
{
    if (at_us >= NEVER_US)
        return;                   /* nothing arrives until sim_mend() */
    v->events++;
    world_push(at_us, kind, index_of(v), b);
}

static int64_t delay_us(const struct path *p)
{
    int64_t us = p->least_us + sim_random((uint32_t)p->spread_us + 1);
    if (sim_random(64) == 0)
        us += sim_random((uint32_t)p->spread_us * 16 + 1);
    return us;
}

/* When what is sent now arrives: after what was sent before, and not during a silence. */
static int64_t arrival_us(const struct path *p, struct stream *s, int64_t silent_until_us,
                          int64_t extra_us)
{
    int64_t from_us = world.now_us > silent_until_us ? world.now_us : silent_until_us;
    int64_t at_us = from_us + extra_us + delay_us(p);
    if (at_us < s->last_us)
        at_us = s->last_us;
    s->last_us = at_us;
    return at_us;
}

/* Sends what the buffer holds beyond s->sent. */
static void send_on(struct conn_v *v, struct stream *s, enum event_kind kind,
                    int64_t silent_until_us, int64_t extra_us)
{
    s->sent = buf_offset(&s->buf);
    push(v, arrival_us(path_of(v), s, silent_until_us, extra_us), kind, s->sent);
}

static void append(struct stream *s, const char *data, size_t len)
{
    char *room = buf_reserve(&s->buf, len);
    assert(room);
    memcpy(room, data, len);
    s->buf.end += len;
}

static void send_down(struct conn_v *v, int64_t extra_us)
{
    if (v->served && v->client && buf_offset(&v->down.buf) > v->down.sent)
        send_on(v, &v->down, EV_DOWN, path_of(v)->down_until_us, extra_us);
}

/* ---- the client's side ---- */

static struct conn_v *conn_new(int process, int server, int link)
{
    int i = 0;
    while (i < used && conns[i].used)
        i++;
    assert(i < CONNECTIONS);
    used += i == used;
    struct conn_v *v = &conns[i];
    struct buf up = v->up.buf, down = v->down.buf;
    int handle = (v->handle ? v->handle : i) + CONNECTIONS;
    handle = handle < INT32_MAX / 2 ? handle : i + CONNECTIONS;
    *v = (struct conn_v){.process = process, .server = server, .link = link, .used = 1};
    v->handle = handle;
    v->up.buf = up;
    v->down.buf = down;
    buf_clear(&v->up.buf);
    buf_clear(&v->down.buf);
    v->up.cut = v->down.cut = UINT64_MAX;
    v->client = 1;
    return v;
}

static void release(struct conn_v *v)
{
    if (v->used && !v->client && !v->served && !v->events && index_of(v) != serving)
        v->used = 0;
}

int link_open(int process, int server, int link)
{
    struct conn_v *v = conn_new(process, server, link);
    push(v, arrival_us(path_of(v), &v->up, path_of(v)->up_until_us, 0), EV_CONNECT, 0);
    return index_of(v);
}

void link_close(int conn)
{
    struct conn_v *v = &conns[conn];
    if (!v->client)
        return;
    v->client = 0;
    v->given_up_us = world.now_us;
    if (v->served)
        send_on(v, &v->up, EV_UP_END, path_of(v)->up_until_us, 0);
    release(v);
}

int link_state(int conn)
{
    return conns[conn].state;
}

long link_write(int conn, const char *data, size_t len)
{
    struct conn_v *v = &conns[conn];
    const struct path *p = path_of(v);
    if (p->window) {
        uint64_t away = buf_offset(&v->up.buf) - v->up.arrived;
        size_t room = away < (uint64_t)p->window ? (size_t)p->window - (size_t)away : 0;
        len = len < room ? len : room;
        v->blocked = 1;
        if (len == 0)
            return 0;
    }
    if (v->served || v->state == 1) {
        size_t first = len;
        if (len > 1 && (int)sim_random(100) < world.crumble)
            first = 1 + sim_random((uint32_t)len - 1);
        append(&v->up, data, first);
        send_on(v, &v->up, EV_UP, p->up_until_us, 0);
        if (first < len) {
            append(&v->up, data + first, len - first);
            send_on(v, &v->up, EV_UP, p->up_until_us, 0);
        }
    }
    return (long)len;
}

static size_t readable(const struct stream *s)
{
    return (size_t)(s->arrived - s->buf.taken);
}

long link_read(int conn, char *data, size_t size)
{
    struct conn_v *v = &conns[conn];
    size_t len = readable(&v->down);
    if (len == 0)
        return v->down.ended ? 0 : -1;
    if (len > size)
        len = size;
    if ((int)sim_random(100) < world.crumble)
        len = 1 + sim_random((uint32_t)(len < 16 ? len : 16));
    if (len > readable(&v->down))
        len = readable(&v->down);
    memcpy(data, v->down.buf.data + v->down.buf.start, len);
    buf_take(&v->down.buf, len);
    return (long)len;
}

static void wake_client(const struct conn_v *v)
{
    if (!v->client)
        return;
    world.process[v->process].ready |= (uint64_t)1 << v->link;
    process_notice(v->process);
}

/* ---- the server's side ---- */

/* True: a whole command was moved into world.step. */
static int take_command(struct conn_v *v)
{
    struct stream *s = &v->up;
    size_t len = command_take(s->buf.data + s->buf.start, readable(s));
    world.step.process = v->process;
    world.step.conn = v->handle;
    world.step.server = v->server;
    buf_take(&s->buf, len);
    return len > 0;
}

static void end_served(struct conn_v *v)
{
    v->served = 0;
    v->up.cut = v->up.arrived;
    buf_clear(&v->up.buf);
    v->up.arrived = 0;
    v->up.cut = 0;
}

static void queue_serve(struct conn_v *v, int64_t at_us)
{
    if (v->serve_queued)
        return;
    v->serve_queued = 1;
    push(v, at_us, EV_SERVE, 0);
}

/* Executes what arrived on a connection, one command at a time. */
static int serve(struct conn_v *v)
{
    struct server_v *server = &servers[v->server];
    if (server->state != SIM_UP || !v->served)
        return 0;
    if (server->busy_until_us > world.now_us) {
        queue_serve(v, server->busy_until_us);
        return 0;
    }
    if (take_command(v)) {
        serving = index_of(v);
        if (server->cost_us)
            server->busy_until_us = world.now_us + server->cost_us;
        return 1;
    }
    if (v->up.ended) {
        end_served(v);
        release(v);
    }
    return 0;
}

double sim_given_up_us(void)
{
    const struct conn_v *v = serving < 0 ? NULL : &conns[serving];
    return v && !v->client ? (double)(world.now_us - v->given_up_us) : 0;
}

int link_serve_on(void)
{
    if (serving < 0)
        return 0;
    struct conn_v *v = &conns[serving];
    struct server_v *server = &servers[v->server];
    serving = -1;
    int more = server->cost_us ? 0 : serve(v);
    if (!more) {
        int64_t late_us = server->busy_until_us - world.now_us;
        send_down(v, late_us > 0 ? late_us : 0);
        if (server->cost_us && v->served)
            queue_serve(v, server->busy_until_us);
        release(v);
    }
    return more;
}

int sim_reply(int handle, const char *data, size_t len)
{
    struct conn_v *v = conn_of(handle);
    if (!v || !v->served)
        return 0;
    append(&v->down, data, len);
    if (index_of(v) != serving)
        send_down(v, 0);
    return 1;
}

/* The server's process died: what arrived and was not read is lost, too. */
static void break_served(struct conn_v *v)
{
    if (!v->served)
        return;
    end_served(v);
    if (v->client)
        push(v, arrival_us(path_of(v), &v->down, path_of(v)->down_until_us, 0), EV_DOWN_END,
             0);
    release(v);
}

void sim_server(int server, int state, double cost_us)
{
    struct server_v *s = &servers[server];
    s->state = state;
    s->cost_us = (int64_t)cost_us;
    if (state == SIM_DOWN)
        s->busy_until_us = 0;
    for (int i = 0; i < used; i++) {
        struct conn_v *v = &conns[i];
        if (!v->used || v->server != server)
            continue;
        if (state == SIM_DOWN)
            break_served(v);
        else if (state == SIM_UP && v->served)
            queue_serve(v, world.now_us);
    }
}

/* True: the server is frozen, and its system accepts no more connections for it. */
static int is_full(int server)
{
    int given_up = 0;
    for (int i = 0; i < used; i++)
        given_up += conns[i].used && conns[i].server == server && conns[i].served &&
                    !conns[i].client;
    return servers[server].state == SIM_FROZEN && given_up >= BACKLOG;
}

/* ---- events ---- */

static void arrive(struct stream *s, uint64_t upto)
{
    if (upto > s->cut)
        upto = s->cut;
    if (upto > s->arrived)
        s->arrived = upto;
}

int link_event(enum event_kind kind, int conn, uint64_t b)
{
    struct conn_v *v = &conns[conn];
    struct server_v *server = &servers[v->server];
    int command = 0;
    v->events--;
    switch (kind) {
    case EV_CONNECT:
        if (is_full(v->server))
            break;
        v->served = v->client && server->state != SIM_DOWN;
        push(v, arrival_us(path_of(v), &v->down, path_of(v)->down_until_us, 0),
             EV_CONNECTED, !v->served);
        break;
    case EV_CONNECTED:
        if (v->state == 0)
            v->state = b || v->down.ended ? -1 : 1;
        wake_client(v);
        break;
    case EV_UP:
        if (!v->served)
            break;
        arrive(&v->up, b);
        command = serve(v);
        if (v->blocked) {
            v->blocked = 0;
            wake_client(v);
        }
        break;
    case EV_UP_END:
        if (!v->served)
            break;
        v->up.ended = 1;
        command = serve(v);
        break;
    case EV_DOWN:
        arrive(&v->down, b);
        wake_client(v);
        break;
    case EV_DOWN_END:
        v->down.ended = 1;
        wake_client(v);
        break;
    default:
        v->serve_queued = 0;
        command = serve(v);
    }
    if (!command)
        release(v);
    return command;
}

/* ---- faults ---- */

void sim_path(int process, int server, double least_us, double spread_us)
{
    paths[process][server].least_us = (int64_t)least_us;
    paths[process][server].spread_us = (int64_t)spread_us;
}

void sim_silence(int process, int server, double up_until_us, double down_until_us)
{
    paths[process][server].up_until_us = (int64_t)up_until_us;
    paths[process][server].down_until_us = (int64_t)down_until_us;
}

void sim_window(int process, int server, int bytes)
{
    paths[process][server].window = bytes;
}

void sim_crumble(int percent)
{
    world.crumble = percent;
}

static void cut_stream(struct stream *s, int how)
{
    uint64_t away = buf_offset(&s->buf) - s->arrived;
    s->cut = s->arrived + (how == 0 ? 0 : how == 1 ? away : sim_random((uint32_t)away + 1));
}

void sim_cut(int process, int server, int which, int up, int down)
{
    for (int i = 0; i < used; i++) {
        struct conn_v *v = &conns[i];
        if (!v->used || v->process != process || v->server != server || !v->client ||
            !v->served || !(which & (v->link == server ? 1 : 2)))
            continue;
        cut_stream(&v->up, up);
        cut_stream(&v->down, down);
        push(v, arrival_us(path_of(v), &v->up, 0, 0), EV_UP_END, 0);
        push(v, arrival_us(path_of(v), &v->down, 0, 0), EV_DOWN_END, 0);
    }
}

void sim_mend(int process, int server)
{
    sim_silence(process, server, 0, 0);
    for (int i = 0; i < used; i++) {
        struct conn_v *v = &conns[i];
        if (!v->used || v->process != process || v->server != server)
            continue;
        v->up.last_us = v->down.last_us = 0;
        if (!v->client && v->served && !v->events) {
            end_served(v);        /* its end, too, was lost */
            release(v);
        }
    }
    sim_cut(process, server, 3, 0, 0);
}
