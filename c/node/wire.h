/* wire.h - RESP2: commands to bytes, bytes to replies.
 *
 * hiredis' reader parses replies into one fixed record, no tree; integers, the reply of
 * most scripts, are read before it sees them. Commands are formatted here: hiredis'
 * formatter allocates a string for every command, and the lock path must not allocate.
 */
#ifndef WIRE_H
#define WIRE_H

#include "node/buf.h"

enum {
    WIRE_MAX_ARRAY = 64,          /* elements of one array in a reply */
    WIRE_MAX_DEPTH = 8,           /* arrays within one another */
    WIRE_MAX_PENDING = 1 << 20,   /* bytes of one unfinished reply */
    WIRE_TEXT_MAX = 256,          /* bytes kept of a string, status or error */
    WIRE_HEAD = 60,               /* bytes kept of the beginning of a connection */
    WIRE_NUMS = 4,                /* integers kept of a reply */
    WIRE_DIGITS = 20              /* digits of a number, at most */
};

enum reply_type {
    REPLY_INTEGER,
    REPLY_STRING,
    REPLY_STATUS,
    REPLY_NIL,
    REPLY_ERROR,
    REPLY_ARRAY
};

/* One reply. Of an array: its integers in order, and its first two strings. */
struct reply {
    enum reply_type type;
    int nums;                     /* integers in num; any after WIRE_NUMS were dropped */
    int64_t num[WIRE_NUMS];
    int has_text;
    size_t text_len;
    char text[WIRE_TEXT_MAX + 1]; /* closed by 0; longer ones are cut. In an error '?'
                                     replaces what is not printable ASCII, and '*' what
                                     may prove ownership */
    int has_second;
    size_t second_len;            /* 0 when it is longer than WIRE_TEXT_MAX */
    char second[WIRE_TEXT_MAX];
    char *whole;                  /* the first string if it does not fit text, until the next
                                     reply begins; or NULL */
    size_t whole_len;
};

/* The first string in full. */
static inline const char *reply_string(const struct reply *reply, size_t *len)
{
    *len = reply->whole ? reply->whole_len : reply->text_len;
    return reply->whole ? reply->whole : reply->text;
}

struct redisReader;

struct wire {
    struct redisReader *reader;
    const char *fed;              /* input that hiredis has not got yet */
    size_t fed_len;
    const char *refused;          /* why we ended the conversation; NULL: we did not */
    struct reply reply;
    char head[WIRE_HEAD + 1];     /* the first bytes of the connection */
    size_t head_len;
    int quotable;                 /* the server may quote a password: errors and head lose
                                     what may be one */
};

/* 0, or -1: out of memory. */
int wire_init(struct wire *w);
void wire_free(struct wire *w);

/* Forgets all input, for a new connection. 0, or -1: out of memory. */
int wire_reset(struct wire *w);

/* Takes len bytes of input, which must stay until wire_next() returns 0 or -1. 0, or -1:
 * out of memory. */
int wire_feed(struct wire *w, const char *data, size_t len);

/* Parses the next complete reply into w->reply. 1: done; 0: more input is needed; -1: not
 * RESP2, or over a bound (see wire_error()): close the connection. */
int wire_next(struct wire *w);

/* Why wire_next() returned -1. */
const char *wire_error(const struct wire *w);

/* The first line of a connection, printable, at most WIRE_HEAD bytes. */
const char *wire_head(struct wire *w);

/* The rl_code for the text of an error reply. */
int wire_error_code(const char *text);

/* True: an error says that the command is missing, or forbidden to this user. */
int wire_no_command(const struct reply *reply);

/* True: an error says that the server refused a script call as a whole: no script ran. */
int wire_refused(const struct reply *reply);

/* Writes n in decimal, at most WIRE_DIGITS bytes. Returns how many. */
size_t wire_digits(char *to, uint64_t n);

/* Append "*n\r\n", one bulk string, bytes as they are. 0, or -1: out of memory (nothing was
 * appended). */
int wire_array(struct buf *b, int n);
int wire_bulk(struct buf *b, const char *data, size_t len);
int wire_raw(struct buf *b, const char *data, size_t len);

/* Appends a whole command of n zero-terminated words. 0, or -1: out of memory. */
int wire_command(struct buf *b, int n, const char *const *words);

#endif
