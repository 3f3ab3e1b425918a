#include "node/wire.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/reader.h"
#include "redlock.h"

/* hiredis calls these functions for each element. They fill the one record of the wire
 * being fed, which is the task's privdata. */

/* Ends the conversation: hiredis takes NULL for out of memory. */
static void *refuse(const redisReadTask *task, const char *why)
{
    ((struct wire *)task->privdata)->refused = why;
    return NULL;
}

/* hiredis 1.x reads RESP3 unasked. */
static void *refuse_resp3(const redisReadTask *task)
{
    return refuse(task, "a reply is not RESP2");
}

static void forget_whole(struct reply *r)
{
    free(r->whole);
    r->whole = NULL;
}

static void clear_reply(struct reply *r, enum reply_type type)
{
    r->type = type;
    r->nums = 0;
    r->has_text = 0;
    r->text_len = 0;
    r->text[0] = '\0';
    r->has_second = 0;
    r->second_len = 0;
    if (r->whole)
        forget_whole(r);
}

static struct reply *reply_begin(const redisReadTask *task, enum reply_type type)
{
    struct reply *r = &((struct wire *)task->privdata)->reply;
    if (!task->parent)
        clear_reply(r, type);
    return r;
}

/* Texts of servers go into errors, logs and terminals, where control codes would act. A
 * server may quote the value of a lock, whose second half proves ownership. */
static void make_printable(char *text, size_t len)
{
    size_t digits = 0;
    for (size_t i = 0; i < len; i++) {
        digits = isxdigit((unsigned char)text[i]) ? digits + 1 : 0;
        if (text[i] < ' ' || text[i] > '~')
            text[i] = '?';
        else if (digits > RL_VALUE_LEN / 2)
            text[i] = '*';
    }
}

/* The length of an error's code, as ERR or WRONGPASS; 0: it begins with something else. */
static size_t code_len(const char *text)
{
    size_t len = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    return strchr(" /-", text[len]) ? len : 0;
}

/* Reduces an error that may quote a password to its code and the last of these phrases
 * that it has. */
static void drop_quotations(struct reply *r)
{
    static const char *const known[] = {
        " unknown command", " called without any password configured",
        " max number of clients reached", " Redis is running in protected mode",
        " DB index is out of range", " SELECT is not allowed in cluster mode",
        " permissions to run the", " no permissions to run the 'select' command",
    };
    const char *phrase = "";
    for (size_t k = 0; k < sizeof(known) / sizeof(known[0]); k++) {
        if (strstr(r->text, known[k]))
            phrase = known[k];
    }
    size_t len = code_len(r->text);
    snprintf(r->text + len, sizeof(r->text) - len, "%s", phrase);
    r->text_len = strlen(r->text);
}

/* Keeps a text that is longer than the record; WIRE_MAX_PENDING bounds it. */
static int keep_whole(struct reply *r, const char *data, size_t len)
{
    if (!(r->whole = malloc(len)))
        return -1;
    memcpy(r->whole, data, len);
    r->whole_len = len;
    return 0;
}

static void *on_string(const redisReadTask *task, char *data, size_t len)
{
    enum reply_type type = task->type == REDIS_REPLY_ERROR    ? REPLY_ERROR
                           : task->type == REDIS_REPLY_STATUS ? REPLY_STATUS
                                                              : REPLY_STRING;
    if (type == REPLY_STRING && task->type != REDIS_REPLY_STRING)
        return refuse_resp3(task);
    if (type != REPLY_STRING && (memchr(data, '\r', len) || memchr(data, '\n', len)))
        return refuse(task, "a line of a reply has a line break in it");
    struct reply *r = reply_begin(task, type);
    const struct wire *w = task->privdata;
    if (!r->has_text) {
        r->has_text = 1;
        r->text_len = len < WIRE_TEXT_MAX ? len : WIRE_TEXT_MAX;
        memcpy(r->text, data, r->text_len);
        r->text[r->text_len] = '\0';
        if (task->type == REDIS_REPLY_ERROR && w->quotable)
            drop_quotations(r);
        else if (task->type == REDIS_REPLY_ERROR)
            make_printable(r->text, r->text_len);
        else if (len > WIRE_TEXT_MAX && keep_whole(r, data, len))
            return NULL;
    } else if (!r->has_second) {
        r->has_second = 1;
        r->second_len = len <= WIRE_TEXT_MAX ? len : 0;
        memcpy(r->second, data, r->second_len);
    }
    return r;
}

static void *on_array(const redisReadTask *task, reader_count elements)
{
    int depth = 1;
    for (const redisReadTask *t = task->parent; t; t = t->parent)
        depth++;
    if (task->type != REDIS_REPLY_ARRAY)
        return refuse_resp3(task);
    if (elements > WIRE_MAX_ARRAY)
        return refuse(task, "an array is too long for a reply");
    if (depth > WIRE_MAX_DEPTH)
        return refuse(task, "the arrays of a reply are nested too deeply");
    return reply_begin(task, REPLY_ARRAY);
}

static void *on_integer(const redisReadTask *task, long long value)
{
    struct reply *r = reply_begin(task, REPLY_INTEGER);
    if (r->nums < WIRE_NUMS)
        r->num[r->nums++] = value;
    return r;
}

static void *on_nil(const redisReadTask *task)
{
    if (task->type != REDIS_REPLY_STRING && task->type != REDIS_REPLY_ARRAY)
        return refuse_resp3(task);
    return reply_begin(task, REPLY_NIL);
}

#if HIREDIS_MAJOR >= 1
static void *on_double(const redisReadTask *task, double value, char *data, size_t len)
{
    (void)value, (void)data, (void)len;
    return refuse_resp3(task);
}

static void *on_bool(const redisReadTask *task, int value)
{
    (void)value;
    return refuse_resp3(task);
}
#endif

static void on_free(void *reply)
{
    (void)reply;
}

static redisReplyObjectFunctions reply_functions = {
    .createString = on_string,
    .createArray = on_array,
    .createInteger = on_integer,
    .createNil = on_nil,
#if HIREDIS_MAJOR >= 1
    .createDouble = on_double,
    .createBool = on_bool,
#endif
    .freeObject = on_free,
};

int wire_init(struct wire *w)
{
    memset(w, 0, sizeof(*w));
    return wire_reset(w);
}

void wire_free(struct wire *w)
{
    if (w->reader)
        READER(redisReaderFree)(w->reader);
    w->reader = NULL;
    forget_whole(&w->reply);
}

int wire_reset(struct wire *w)
{
    wire_free(w);
    w->refused = NULL;
    w->fed_len = 0;
    w->reply.type = REPLY_NIL;
    w->head_len = 0;
    w->reader = READER(redisReaderCreateWithFunctions)(&reply_functions);
    if (!w->reader)
        return -1;
    w->reader->privdata = w;
    return 0;
}

/* True: it has no part of a reply, and no error. */
static int is_idle(const redisReader *reader)
{
    return !reader->err && reader->ridx < 0 && reader->pos == reader->len;
}

/* Gives hiredis what it has not got yet. 0, or -1: out of memory. */
static int give(struct wire *w, const char *data, size_t len)
{
    w->fed_len = 0;
    return !len || READER(redisReaderFeed)(w->reader, data, len) == REDIS_OK ? 0 : -1;
}

int wire_feed(struct wire *w, const char *data, size_t len)
{
    if (give(w, w->fed, w->fed_len) < 0)
        return -1;
    size_t more = WIRE_HEAD - w->head_len;
    if (more) {
        more = more < len ? more : len;
        memcpy(w->head + w->head_len, data, more);
        w->head_len += more;
    }
    if (len && data[0] == ':' && is_idle(w->reader)) {
        w->fed = data;
        w->fed_len = len;
        return 0;
    }
    return give(w, data, len);
}

/* Takes an integer reply of up to 15 digits from w->fed. False: hiredis must read it. */
static int take_integer(struct wire *w)
{
    const char *at = w->fed + 1, *end = w->fed + w->fed_len;
    int64_t n = 0;
    int negative = at < end && *at == '-';
    const char *first = at += negative;
    while (at < end && at - first < 15 && *at >= '0' && *at <= '9')
        n = n * 10 + (*at++ - '0');
    if (end - at < 2 || at == first || at[0] != '\r' || at[1] != '\n' ||
        (*first == '0' && (negative || at - first > 1)))
        return 0;
    clear_reply(&w->reply, REPLY_INTEGER);
    w->reply.nums = 1;
    w->reply.num[0] = negative ? -n : n;
    w->fed = at + 2;
    w->fed_len = (size_t)(end - w->fed);
    return 1;
}

int wire_next(struct wire *w)
{
    void *reply = NULL;
    if (w->fed_len && w->fed[0] == ':' && take_integer(w))
        return 1;
    if (!w->fed_len && is_idle(w->reader))
        return 0;
    if (give(w, w->fed, w->fed_len) < 0)
        return -1;
    if (READER(redisReaderGetReply)(w->reader, &reply) != REDIS_OK)
        return -1;
    if (reply)
        return 1;
    return w->reader->len - w->reader->pos > WIRE_MAX_PENDING ? -1 : 0;
}

const char *wire_error(const struct wire *w)
{
    if (w->refused)
        return w->refused;
    return w->reader->err ? w->reader->errstr : "a reply is over 1 MiB";
}

const char *wire_head(struct wire *w)
{
    const char *end = memchr(w->head, '\r', w->head_len);
    size_t len = end ? (size_t)(end - w->head) : w->head_len;
    make_printable(w->head, len);
    w->head[len] = '\0';
    if (w->quotable)
        w->head[code_len(w->head)] = '\0';
    return w->head;
}

int wire_error_code(const char *text)
{
    static const struct {
        const char *word;
        int code;
    } known[] = {
        {"NOAUTH", RL_AUTH},         {"WRONGPASS", RL_AUTH},
        {"NOPERM", RL_NOPERM},       {"READONLY", RL_READONLY},
        {"MISCONF", RL_READONLY},    {"NOREPLICAS", RL_READONLY},
        {"LOADING", RL_LOADING},     {"BUSY", RL_LOADING},
        {"MASTERDOWN", RL_LOADING},  {"TRYAGAIN", RL_LOADING},
        {"OOM", RL_OOM},             {"MOVED", RL_UNSUPPORTED},
        {"ASK", RL_UNSUPPORTED},     {"CLUSTERDOWN", RL_UNSUPPORTED},
        {"CROSSSLOT", RL_UNSUPPORTED}, {"DENIED", RL_REFUSED},
        {"NOTALOCK", RL_NOT_A_LOCK},
    };
    /* Redis before 7.0 wraps the error of a command inside a script:
     * "ERR Error running script (call to f_...): @user_script:1: -OOM command ..." */
    const char *inner = strstr(text, "@user_script");
    inner = inner ? strstr(inner, ": -") : NULL;
    const char *word = inner ? inner + 3 : text;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        size_t len = strlen(known[i].word);
        if (strncmp(word, known[i].word, len) == 0 &&
            (word[len] == ' ' || word[len] == '\0'))
            return known[i].code;
    }
    if (strncmp(text, "ERR AUTH", 8) == 0 || strstr(text, "invalid password") ||
        strstr(text, "without any password configured"))
        return RL_AUTH;
    /* Since 7.2. The older wording, below, is wrapped before 7.0. */
    static const char denied[] = "ERR ACL failure in script: ";
    if (strncmp(text, denied, sizeof(denied) - 1) == 0 ||
        strstr(text, "user executing the script can't"))
        return RL_NOPERM;
    if (strstr(text, "max number of clients"))
        return RL_REFUSED;
    return strstr(text, "unknown command") ? RL_UNSUPPORTED : RL_SCRIPT;
}

int wire_no_command(const struct reply *reply)
{
    return wire_refused(reply) && (strstr(reply->text, "unknown command") ||
                                   strstr(reply->text, "permissions to run the"));
}

int wire_refused(const struct reply *reply)
{
    int code = reply->type == REPLY_ERROR ? wire_error_code(reply->text) : RL_OK;
    int whole = code == RL_NOPERM || code == RL_AUTH || code == RL_UNSUPPORTED ||
                code == RL_LOADING;
    return whole && !strstr(reply->text, "@user_script") &&
           !strstr(reply->text, " in script: ") && !strstr(reply->text, "the script can't");
}

int wire_raw(struct buf *b, const char *data, size_t len)
{
    char *to = buf_reserve(b, len);
    if (!to)
        return -1;
    if (len)
        memcpy(to, data, len);
    b->end += len;
    return 0;
}

enum { HEAD_MAX = WIRE_DIGITS + 4 };     /* prefix, digits, CR LF */

size_t wire_digits(char *s, uint64_t n)
{
    char reversed[WIRE_DIGITS];
    size_t len = 0;
    if (n < 10) {
        s[0] = (char)('0' + n);
        return 1;
    }
    do {
        reversed[len++] = (char)('0' + n % 10);
        n /= 10;
    } while (n);
    for (size_t k = 0; k < len; k++)
        s[k] = reversed[len - 1 - k];
    return len;
}

/* Writes prefix, n and "\r\n" to s. Returns the number of characters. */
static size_t put_head(char *s, char prefix, uint64_t n)
{
    s[0] = prefix;
    size_t len = 1 + wire_digits(s + 1, n);
    memcpy(s + len, "\r\n", 2);
    return len + 2;
}

int wire_array(struct buf *b, int n)
{
    char *to = buf_reserve(b, HEAD_MAX);
    if (!to)
        return -1;
    b->end += put_head(to, '*', (uint64_t)n);
    return 0;
}

int wire_bulk(struct buf *b, const char *data, size_t len)
{
    char *to = buf_reserve(b, HEAD_MAX + len + 2);
    if (!to)
        return -1;
    size_t k = put_head(to, '$', len);
    if (len)
        memcpy(to + k, data, len);
    memcpy(to + k + len, "\r\n", 2);
    b->end += k + len + 2;
    return 0;
}

int wire_command(struct buf *b, int n, const char *const *words)
{
    size_t room = HEAD_MAX;
    for (int i = 0; i < n; i++)
        room += HEAD_MAX + strlen(words[i]) + 2;
    if (!buf_reserve(b, room))
        return -1;
    wire_array(b, n);
    for (int i = 0; i < n; i++)
        wire_bulk(b, words[i], strlen(words[i]));
    return 0;
}
