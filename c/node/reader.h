/* reader.h - hiredis' reader: linked in, or loaded where there is only a shared library.
 *
 * Why loaded: nginx modules bring hiredis in other versions under the same names, and
 * the loader would bind us to the first one that it finds.
 */
#ifndef READER_H
#define READER_H

#include <hiredis/hiredis.h>

#if HIREDIS_MAJOR == 0 && HIREDIS_MINOR < 14
#error "hiredis 0.14 or later is needed"
#endif

/* hiredis' type for the number of elements of an array. */
#if HIREDIS_MAJOR >= 1
typedef size_t reader_count;
#else
typedef int reader_count;
#endif

/* Fails to compile if a new hiredis changes this: replies would be read wrongly. */
_Static_assert(_Generic(((redisReplyObjectFunctions *)0)->createArray,
                        void *(*)(const redisReadTask *, reader_count) : 1, default : 0),
               "this hiredis hands over arrays in a way of its own");

#define READER_FUNCTIONS(X)                                                              \
    X(redisReaderCreateWithFunctions)                                                    \
    X(redisReaderFeed)                                                                   \
    X(redisReaderFree)                                                                   \
    X(redisReaderGetReply)

/* READER(redisReaderFeed)(...) calls a function of hiredis; call reader_load() first. */
#ifdef HIREDIS_SHARED
#define X(name) __typeof__(name) *name;
extern struct reader_functions {
    READER_FUNCTIONS(X)
} reader_functions;
#undef X
#define READER(name) reader_functions.name
#else
#define READER(name) name
#endif

/* Loads hiredis where it is not linked in. NULL, or why that failed: a text that stays
 * valid. May be called repeatedly, from any thread. */
const char *reader_load(void);

#endif
