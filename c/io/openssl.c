#include "io/openssl.h"

#include <pthread.h>
#include <stdio.h>

#include "node/load.h"

#ifdef OPENSSL_VERSION_MAJOR
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define LIBSSL "libssl.so." TEXT(OPENSSL_SHLIB_VERSION)
#else
#define LIBSSL "libssl.so.1.1"
#endif

struct openssl o;

static pthread_once_t loaded_once = PTHREAD_ONCE_INIT;
static char load_error[256];      /* "": none */

/* dlsym() on the handle looks only in libssl and the libraries that it needs. */
static void load(void)
{
    void *lib = dlopen(LIBSSL, LOAD);
    const char *missing = lib ? NULL : dlerror();
#define X(name)                                                                          \
    if (!missing && !(o.name = (__typeof__(o.name))dlsym(lib, #name)))                   \
        missing = #name " is missing in " LIBSSL;
    FUNCTIONS(X)
#undef X
    /* Without OpenSSL's exit handler: our threads may still use OpenSSL then. */
    if (!missing && !o.OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, NULL))
        missing = LIBSSL " cannot be initialised";
    snprintf(load_error, sizeof(load_error), "%s", missing ? missing : "");
}

const char *openssl_load(void)
{
    pthread_once(&loaded_once, load);
    return *load_error ? load_error : NULL;
}
