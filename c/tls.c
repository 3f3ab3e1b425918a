/* tls.c - TLS by OpenSSL 1.1.1 or later.
 *
 * libssl is loaded when it is first needed, and its functions are called through a table.
 * Why: programs without TLS do not pay for it, and those that carry an OpenSSL of their
 * own (OpenResty links it statically and exports it) would otherwise lend us some of its
 * functions: the loader looks in the program first.
 */
#include "tls.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef OPENSSL_VERSION_MAJOR
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define LIBSSL "libssl.so." TEXT(OPENSSL_SHLIB_VERSION)
#else
#define LIBSSL "libssl.so.1.1"
#endif

/* The sanitizers' own versions of malloc and the like must be found first. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { LOAD = RTLD_NOW | RTLD_LOCAL };
#else
enum { LOAD = RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND };
#endif

/* ---- the library ---- */

#define FUNCTIONS(X)                                                                     \
    X(BIO_ctrl)                                                                          \
    X(BIO_free)                                                                          \
    X(BIO_new)                                                                           \
    X(BIO_read)                                                                          \
    X(BIO_s_mem)                                                                         \
    X(BIO_write)                                                                         \
    X(ERR_clear_error)                                                                   \
    X(ERR_peek_last_error)                                                               \
    X(ERR_reason_error_string)                                                           \
    X(OPENSSL_atexit)                                                                    \
    X(OPENSSL_init_ssl)                                                                  \
    X(OPENSSL_thread_stop)                                                               \
    X(SSL_CTX_ctrl)                                                                      \
    X(SSL_CTX_free)                                                                      \
    X(SSL_CTX_load_verify_locations)                                                     \
    X(SSL_CTX_new)                                                                       \
    X(SSL_CTX_set_default_passwd_cb)                                                     \
    X(SSL_CTX_set_default_verify_paths)                                                  \
    X(SSL_CTX_set_options)                                                               \
    X(SSL_CTX_set_verify)                                                                \
    X(SSL_CTX_use_PrivateKey_file)                                                       \
    X(SSL_CTX_use_certificate_chain_file)                                                \
    X(SSL_ctrl)                                                                          \
    X(SSL_do_handshake)                                                                  \
    X(SSL_free)                                                                          \
    X(SSL_get0_param)                                                                    \
    X(SSL_get_error)                                                                     \
    X(SSL_get_verify_result)                                                             \
    X(SSL_new)                                                                           \
    X(SSL_read)                                                                          \
    X(SSL_set_bio)                                                                       \
    X(SSL_set_connect_state)                                                             \
    X(SSL_shutdown)                                                                      \
    X(SSL_write)                                                                         \
    X(TLS_client_method)                                                                 \
    X(X509_VERIFY_PARAM_set1_host)                                                       \
    X(X509_VERIFY_PARAM_set1_ip_asc)                                                     \
    X(X509_VERIFY_PARAM_set_hostflags)                                                   \
    X(X509_verify_cert_error_string)

static struct {
#define X(name) __typeof__(name) *name;
    FUNCTIONS(X)
#undef X
} o;

static pthread_once_t loaded_once = PTHREAD_ONCE_INIT;
static char load_error[256];      /* "": it is there */
static void (*on_cleanup)(void);

/* dlsym() on the handle looks in libssl and what it needs, and nowhere else. */
static void load(void)
{
    void *lib = dlopen(LIBSSL, LOAD);
    const char *missing = lib ? NULL : dlerror();
#define X(name)                                                                          \
    if (!missing && !(o.name = (__typeof__(o.name))dlsym(lib, #name)))                   \
        missing = #name " is missing in " LIBSSL;
    FUNCTIONS(X)
#undef X
    /* Without an exit handler of OpenSSL's own: our threads may be using it still. */
    if (!missing && !o.OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, NULL))
        missing = LIBSSL " cannot be initialised";
    snprintf(load_error, sizeof(load_error), "%s", missing ? missing : "");
}

void tls_on_cleanup(void (*fn)(void))
{
    if (on_cleanup)
        return;
    on_cleanup = fn;
    o.OPENSSL_atexit(fn);    /* others may have asked OpenSSL to clean up at exit */
}

void tls_thread_end(void)
{
    o.OPENSSL_thread_stop();
}

/* ---- contexts ---- */

static const char *reason(void)
{
    const char *text = o.ERR_reason_error_string(o.ERR_peek_last_error());
    return text ? text : "unknown error";
}

/* Never a prompt on the terminal. */
static int no_passphrase(char *buf, int size, int writing, void *arg)
{
    (void)buf, (void)size, (void)writing, (void)arg;
    return -1;
}

static int context_load(SSL_CTX *ctx, const struct tls_options *op, char *err,
                        size_t err_size)
{
    if (op->ca_file && o.SSL_CTX_load_verify_locations(ctx, op->ca_file, NULL) != 1) {
        snprintf(err, err_size, "ca_file %s: %s", op->ca_file, reason());
        return -1;
    }
    if (!op->ca_file && o.SSL_CTX_set_default_verify_paths(ctx) != 1) {
        snprintf(err, err_size, "the system's certificates: %s", reason());
        return -1;
    }
    if (!op->cert_file)
        return 0;
    if (o.SSL_CTX_use_certificate_chain_file(ctx, op->cert_file) != 1) {
        snprintf(err, err_size, "cert_file %s: %s", op->cert_file, reason());
        return -1;
    }
    if (o.SSL_CTX_use_PrivateKey_file(ctx, op->key_file, SSL_FILETYPE_PEM) == 1)
        return 0;
    if (ERR_GET_REASON(o.ERR_peek_last_error()) == X509_R_KEY_VALUES_MISMATCH)
        snprintf(err, err_size, "key_file %s is not the key of cert_file %s", op->key_file,
                 op->cert_file);
    else
        snprintf(err, err_size, "key_file %s: %s (a key with a passphrase cannot be used)",
                 op->key_file, reason());
    return -1;
}

/* A context is OpenSSL's own. */
static SSL_CTX *ctx_of(struct tls_context *context)
{
    return (SSL_CTX *)context;
}

struct tls_context *tls_context_new(const struct tls_options *options, char *err,
                                    size_t err_size)
{
    pthread_once(&loaded_once, load);
    if (*load_error) {
        snprintf(err, err_size, "unsupported: no TLS: %s", load_error);
        return NULL;
    }
    o.ERR_clear_error();
    SSL_CTX *ctx = o.SSL_CTX_new(o.TLS_client_method());
    int failed = !ctx;
    if (failed) {
        snprintf(err, err_size, "TLS: %s", reason());
    } else {
        o.SSL_CTX_ctrl(ctx, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, NULL);
        o.SSL_CTX_ctrl(ctx, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, NULL);
        o.SSL_CTX_ctrl(ctx, SSL_CTRL_MODE, SSL_MODE_RELEASE_BUFFERS, NULL);
        o.SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
        o.SSL_CTX_set_verify(ctx, options->verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, NULL);
        o.SSL_CTX_set_default_passwd_cb(ctx, no_passphrase);
        failed = context_load(ctx, options, err, err_size) < 0;
    }
    o.ERR_clear_error();
    if (!failed)
        return (struct tls_context *)ctx;
    if (ctx)
        o.SSL_CTX_free(ctx);
    return NULL;
}

void tls_context_free(struct tls_context *context)
{
    if (context)
        o.SSL_CTX_free(ctx_of(context));
}

/* ---- connections ---- */

struct tls {
    SSL *ssl;
    BIO *in, *cipher;             /* both are the ssl's */
    const char *name;
    int shaken;                   /* the handshake is done */
    struct buf out;
    char why[160];
};

static int is_address(const char *name)
{
    unsigned char address[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1;
}

/* Whose certificate is expected, and which one to ask for. 0, or -1: out of memory. */
static int expect_name(SSL *ssl, const char *name)
{
    X509_VERIFY_PARAM *param = o.SSL_get0_param(ssl);
    if (is_address(name))
        return o.X509_VERIFY_PARAM_set1_ip_asc(param, name) == 1 ? 0 : -1;
    o.X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (o.X509_VERIFY_PARAM_set1_host(param, name, 0) != 1)
        return -1;
    return o.SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                      (void *)name) == 1
               ? 0
               : -1;
}

struct tls *tls_new(struct tls_context *context, const char *name)
{
    struct tls *t = calloc(1, sizeof(*t));
    if (!t)
        return NULL;
    buf_init(&t->out);
    t->name = name;
    o.ERR_clear_error();
    t->ssl = o.SSL_new(ctx_of(context));
    t->in = o.BIO_new(o.BIO_s_mem());
    t->cipher = o.BIO_new(o.BIO_s_mem());
    if (t->ssl && t->in && t->cipher) {
        o.SSL_set_bio(t->ssl, t->in, t->cipher);
        o.SSL_set_connect_state(t->ssl);
        if (expect_name(t->ssl, name) == 0)
            return t;
    } else {
        o.BIO_free(t->in);
        o.BIO_free(t->cipher);
    }
    o.ERR_clear_error();
    tls_free(t);
    return NULL;
}

void tls_free(struct tls *t)
{
    if (!t)
        return;
    if (t->ssl)
        o.SSL_free(t->ssl);
    buf_free(&t->out);
    free(t);
}

struct buf *tls_out(struct tls *t)
{
    return &t->out;
}

const char *tls_why(const struct tls *t)
{
    return t->why;
}

/* ---- what went wrong, in words ---- */

static const char *certificate_trouble(long result)
{
    switch (result) {
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
        return "its certificate is of an unknown CA; give the CA's as ca_file";
    case X509_V_ERR_CERT_HAS_EXPIRED:
        return "its certificate, or one of its chain, has expired";
    case X509_V_ERR_CERT_NOT_YET_VALID:
        return "its certificate is not valid yet; compare the clocks";
    default:
        return NULL;
    }
}

static const char *protocol_trouble(int code)
{
    switch (code) {
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_HTTP_REQUEST:
        return "it does not answer in TLS; is this the plain port? then redis://";
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
        return "it does not offer TLS 1.2 or later";
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
        return "it wants a client certificate: cert_file, key_file";
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
        return "it refused the handshake; it may want a client certificate (cert_file, "
               "key_file) or other ciphers";
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
        return "it does not accept our certificate (cert_file)";
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
        return "our certificate (cert_file) has expired";
    default:
        return NULL;
    }
}

/* Says it in words of ours where it is one of the usual reasons. Always TLS_BROKEN. */
static int broken(struct tls *t)
{
    long result = o.SSL_get_verify_result(t->ssl);
    unsigned long error = o.ERR_peek_last_error();
    int verified = ERR_GET_REASON(error) != SSL_R_CERTIFICATE_VERIFY_FAILED;
    const char *text = verified ? protocol_trouble(ERR_GET_REASON(error))
                                : certificate_trouble(result);
    if (!verified && (result == X509_V_ERR_HOSTNAME_MISMATCH ||
                      result == X509_V_ERR_IP_ADDRESS_MISMATCH))
        snprintf(t->why, sizeof(t->why), "its certificate is not for '%.80s'", t->name);
    else if (text)
        snprintf(t->why, sizeof(t->why), "%s", text);
    else
        snprintf(t->why, sizeof(t->why), "%s",
                 verified ? reason() : o.X509_verify_cert_error_string(result));
    o.ERR_clear_error();
    return TLS_BROKEN;
}

/* ---- bytes ---- */

/* Brings what was encrypted into our buffer. 0, or -1: out of memory. */
static int collect(struct tls *t)
{
    size_t pending;
    while ((pending = (size_t)o.BIO_ctrl(t->cipher, BIO_CTRL_PENDING, 0, NULL)) > 0) {
        char *room = buf_reserve(&t->out, pending);
        int k = room ? o.BIO_read(t->cipher, room, (int)pending) : 0;
        if (k <= 0)
            return -1;
        t->out.end += (size_t)k;
    }
    return 0;
}

/* What a call that returned r <= 0 means: TLS_MORE, TLS_CLOSED or TLS_BROKEN. */
static int judge(struct tls *t, int r)
{
    switch (o.SSL_get_error(t->ssl, r)) {
    case SSL_ERROR_WANT_READ:
        return TLS_MORE;
    case SSL_ERROR_ZERO_RETURN:
        return TLS_CLOSED;
    default:
        return broken(t);
    }
}

int tls_feed(struct tls *t, const char *data, size_t len)
{
    return o.BIO_write(t->in, data, (int)len) == (int)len ? 0 : -1;
}

int tls_handshake(struct tls *t)
{
    if (t->shaken)
        return 1;
    o.ERR_clear_error();
    int r = o.SSL_do_handshake(t->ssl);
    int got = r == 1 ? 1 : judge(t, r);
    t->shaken = got == 1;
    if (collect(t) < 0 || got == TLS_CLOSED) {
        snprintf(t->why, sizeof(t->why), "the handshake was not finished");
        return TLS_BROKEN;
    }
    return got;
}

int tls_read(struct tls *t, char *data, int size)
{
    o.ERR_clear_error();
    int r = o.SSL_read(t->ssl, data, size);
    int got = r > 0 ? r : judge(t, r);
    if (collect(t) < 0) {
        snprintf(t->why, sizeof(t->why), "out of memory");
        return TLS_BROKEN;
    }
    return got;
}

int tls_write(struct tls *t, const char *data, size_t len)
{
    o.ERR_clear_error();
    int r = o.SSL_write(t->ssl, data, (int)len);
    if (r == (int)len && collect(t) == 0)
        return 0;
    return broken(t);
}

void tls_close(struct tls *t)
{
    o.ERR_clear_error();
    o.SSL_shutdown(t->ssl);
    collect(t);
    o.ERR_clear_error();
}
