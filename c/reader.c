#include "reader.h"

#ifndef HIREDIS_SHARED

const char *reader_load(void)
{
    return NULL;
}

#else

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

/* With RTLD_DEEPBIND hiredis calls itself, and none that was loaded before it. musl has no
 * such flag: there another hiredis 1.x can come in between, whose strings are the same (those
 * of 0.x have other names). The sanitizers' malloc and the like must be found first. */
#if defined(RTLD_DEEPBIND) && !defined(__SANITIZE_ADDRESS__) &&                          \
    !defined(__SANITIZE_THREAD__)
enum { LOAD = RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND };
#else
enum { LOAD = RTLD_NOW | RTLD_LOCAL };
#endif

struct reader_functions reader_functions;

static pthread_once_t loaded_once = PTHREAD_ONCE_INIT;
static char load_error[256];      /* "": it is there */

/* dlsym() on the handle looks in hiredis and what it needs, and nowhere else. */
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
