#include "node/reader.h"

#ifndef HIREDIS_SHARED

const char *reader_load(void)
{
    return NULL;
}

#else

#include <pthread.h>
#include <stdio.h>

#include "node/load.h"

struct reader_functions reader_functions;

static pthread_once_t loaded_once = PTHREAD_ONCE_INIT;
static char load_error[256];      /* "": none */

/* dlsym() on the handle searches only hiredis and its dependencies. Where hiredis may
 * call functions of another copy (load.h), those of its version are alike, and those of
 * 0.x have other names. */
static void load(void)
{
    void *lib = dlopen(HIREDIS_SHARED, LOAD);
    const char *missing = lib ? NULL : dlerror();
#define X(name)                                                                          \
    if (!missing &&                                                                      \
        !(reader_functions.name = (__typeof__(name) *)dlsym(lib, #name)))                \
        missing = #name " is missing in " HIREDIS_SHARED;
    READER_FUNCTIONS(X)
#undef X
    snprintf(load_error, sizeof(load_error), "%s", missing ? missing : "");
}

const char *reader_load(void)
{
    pthread_once(&loaded_once, load);
    return load_error[0] ? load_error : NULL;
}

#endif
