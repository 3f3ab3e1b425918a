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

/* The process may have another copy of hiredis. dlsym() on the handle finds only functions
 * of ours. Those may call functions of the other copy (load.h), which does no harm: in the
 * same version they are alike, and 0.x has other names for them. */
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
