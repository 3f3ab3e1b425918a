#include "io/tls.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "io/lookup.h"
#include "io/openssl.h"
#include "node/node.h"

static void (*on_cleanup)(void);

void tls_on_cleanup(void (*fn)(void))
{
    if (on_cleanup)
        return;
    on_cleanup = fn;
    o.OPENSSL_atexit(fn);    /* others may have OpenSSL clean up at exit */
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

/* Without this OpenSSL would ask on the terminal. */
static int no_passphrase(char *buf, int size, int writing, void *arg)
{
    (void)buf, (void)size, (void)writing, (void)arg;
    return -1;
}

struct tls_context {
    SSL_CTX *ctx;                 /* NULL: no good files yet */
    char *text[TLS_FILES];        /* of the files; or NULL */
    int verify;
};

static X509 *next_certificate(BIO *bio)
{
    return bio ? o.PEM_read_bio_X509_AUX(bio, NULL, no_passphrase, NULL) : NULL;
}

/* After next_certificate(): whether there was no more, rather than a bad one. */
static int is_end(void)
{
    return ERR_GET_REASON(o.ERR_peek_last_error()) == PEM_R_NO_START_LINE;
}

static int trust(SSL_CTX *ctx, BIO *bio)
{
    int count = 0;
    for (X509 *x; (x = next_certificate(bio)); o.X509_free(x))
        count += o.X509_STORE_add_cert(o.SSL_CTX_get_cert_store(ctx), x) == 1;
    return count && is_end();
}

static int use_chain(SSL_CTX *ctx, BIO *bio)
{
    X509 *x = next_certificate(bio);
    int good = x && o.SSL_CTX_use_certificate(ctx, x) == 1;
    o.X509_free(x);
    while (good && (x = next_certificate(bio))) {
        good = o.SSL_CTX_ctrl(ctx, SSL_CTRL_CHAIN_CERT, 0, x) == 1;
        if (!good)
            o.X509_free(x);
    }
    return good && is_end();
}

static int use_key(SSL_CTX *ctx, BIO *bio)
{
    EVP_PKEY *key = bio ? o.PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, NULL) : NULL;
    int good = key && o.SSL_CTX_use_PrivateKey(ctx, key) == 1;
    o.EVP_PKEY_free(key);
    return good;
}

/* 0, or -1 with a text in err. */
static int use_files(SSL_CTX *ctx, const struct tls_context *context, char *const *file,
                     char *err, size_t err_size)
{
    static int (*const use[TLS_FILES])(SSL_CTX *, BIO *) = {trust, use_chain, use_key};
    if (!context->text[0] && o.SSL_CTX_set_default_verify_paths(ctx) != 1) {
        snprintf(err, err_size, "the system's certificates: %s", reason());
        return -1;
    }
    for (int k = 0; k < TLS_FILES; k++) {
        if (!context->text[k])
            continue;
        o.ERR_clear_error();
        BIO *bio = o.BIO_new_mem_buf(context->text[k], -1);
        int good = use[k](ctx, bio);
        o.BIO_free(bio);
        if (good)
            continue;
        if (ERR_GET_REASON(o.ERR_peek_last_error()) == X509_R_KEY_VALUES_MISMATCH)
            snprintf(err, err_size, "key_file %s is not the key of cert_file %s",
                     file[2], file[1]);
        else
            snprintf(err, err_size, "%s %s: %s%s", lookup_names[CA_FILE + k], file[k],
                     reason(), k < 2 ? "" : " (a key with a passphrase cannot be used)");
        return -1;
    }
    return 0;
}

static int on_verify(int ok, X509_STORE_CTX *store);

/* NULL, with a text in err: a bad file, or OpenSSL failed. */
static SSL_CTX *new_ctx(const struct tls_context *context, char *const *file, char *err,
                        size_t err_size)
{
    o.ERR_clear_error();
    SSL_CTX *ctx = o.SSL_CTX_new(o.TLS_client_method());
    int failed = !ctx;
    if (failed) {
        snprintf(err, err_size, "TLS: %s", reason());
    } else {
        if (o.SSL_CTX_ctrl(ctx, SSL_CTRL_GET_MIN_PROTO_VERSION, 0, NULL) < TLS1_2_VERSION)
            o.SSL_CTX_ctrl(ctx, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, NULL);
        o.SSL_CTX_ctrl(ctx, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, NULL);
        o.SSL_CTX_ctrl(ctx, SSL_CTRL_MODE, SSL_MODE_RELEASE_BUFFERS, NULL);
        o.SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
        o.SSL_CTX_set_verify(ctx, context->verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE,
                             on_verify);
        failed = use_files(ctx, context, file, err, err_size) < 0;
    }
    o.ERR_clear_error();
    if (!failed)
        return ctx;
    if (ctx)
        o.SSL_CTX_free(ctx);
    return NULL;
}

static int is_same(const char *a, const char *b)
{
    return a && b ? !strcmp(a, b) : a == b;
}

int tls_context_use(struct tls_context *context, char *const *file, char **text, char *err,
                    size_t err_size)
{
    int same = context->ctx != NULL;
    for (int k = 0; k < TLS_FILES; k++) {
        same &= is_same(context->text[k], text[k]);
        secret_free(context->text[k]);
        context->text[k] = text[k];
        text[k] = NULL;
    }
    if (same)
        return 0;
    if (context->ctx)
        o.SSL_CTX_free(context->ctx);        /* open connections keep a reference */
    context->ctx = new_ctx(context, file, err, err_size);
    return context->ctx ? 0 : -1;
}

/* Reads the files, and uses them. 0, or -1: see tls_context_use(). */
static int read_files(struct tls_context *context, char *const *file, char *err,
                      size_t err_size)
{
    char *text[TLS_FILES] = {NULL};
    int failed = 0;
    for (int k = 0; k < TLS_FILES && !failed; k++) {
        if (file[k])
            failed = !(text[k] = lookup_read(CA_FILE + k, file[k], err, err_size));
    }
    if (!failed)
        return tls_context_use(context, file, text, err, err_size);
    for (int k = 0; k < TLS_FILES; k++)
        secret_free(text[k]);
    return -1;
}

struct tls_context *tls_context_new(int verify, char *const *file, char *err,
                                    size_t err_size)
{
    const char *missing = openssl_load();
    struct tls_context *context = missing ? NULL : calloc(1, sizeof(*context));
    if (missing) {
        snprintf(err, err_size, "unsupported: no TLS: %s", missing);
    } else if (!context) {
        snprintf(err, err_size, "out of memory");
    } else {
        context->verify = verify;
        if (!file || read_files(context, file, err, err_size) == 0)
            return context;
        tls_context_free(context);
    }
    return NULL;
}

void tls_context_free(struct tls_context *context)
{
    if (!context)
        return;
    if (context->ctx)
        o.SSL_CTX_free(context->ctx);
    for (int i = 0; i < TLS_FILES; i++)
        secret_free(context->text[i]);
    free(context);
}

/* ---- connections ---- */

static int is_address(const char *name)
{
    unsigned char address[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1;
}

/* Sets the name to verify, and to ask for (SNI). 0, or -1: out of memory. */
static int expect_name(SSL *ssl, const char *name)
{
    X509_VERIFY_PARAM *param = o.SSL_get0_param(ssl);
    if (is_address(name))
        return o.X509_VERIFY_PARAM_set1_ip_asc(param, name) == 1 ? 0 : -1;
    o.X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS |
                                                 X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    if (o.X509_VERIFY_PARAM_set1_host(param, name, 0) != 1)
        return -1;
    return o.SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                      (void *)name) == 1
               ? 0
               : -1;
}

/* Notes when a certificate ends, or NULL. */
static void note_end(struct tls *t, const X509 *x)
{
    int days, seconds;
    if (!x || !o.ASN1_TIME_diff(&days, &seconds, NULL, o.X509_get0_notAfter(x)))
        return;
    int64_t ends_s = (int64_t)time(NULL) + days * (int64_t)86400 + seconds;
    if (!t->ends_s || ends_s < t->ends_s)
        t->ends_s = ends_s;
}

/* OpenSSL calls this in the handshake, for each certificate of the server's chain. */
static int on_verify(int ok, X509_STORE_CTX *store)
{
    SSL *ssl = o.X509_STORE_CTX_get_ex_data(store, o.SSL_get_ex_data_X509_STORE_CTX_idx());
    struct tls *t = o.SSL_get_ex_data(ssl, 0);
    note_end(t, o.X509_STORE_CTX_get_current_cert(store));
    note_end(t, o.SSL_get_certificate(ssl));
    t->nameless =
        o.X509_get_ext_by_NID(o.X509_STORE_CTX_get0_cert(store), NID_subject_alt_name, -1) < 0;
    return ok;
}

struct tls *tls_new(struct tls_context *context, const char *name, int port, char *err,
                    size_t err_size)
{
    if (!context->ctx) {         /* another connection has found them bad since */
        snprintf(err, err_size, "its files are no longer good");
        return NULL;
    }
    struct tls *t = calloc(1, sizeof(*t));
    snprintf(err, err_size, "out of memory");
    if (!t)
        return NULL;
    t->name = name;
    t->port = port;
    o.ERR_clear_error();
    t->ssl = o.SSL_new(context->ctx);
    t->in = o.BIO_new(o.BIO_s_mem());
    t->cipher = o.BIO_new(o.BIO_s_mem());
    if (t->ssl && t->in && t->cipher) {
        o.SSL_set_bio(t->ssl, t->in, t->cipher);
        o.SSL_set_connect_state(t->ssl);
        if (o.SSL_set_ex_data(t->ssl, 0, t) == 1 && expect_name(t->ssl, name) == 0)
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

/* ---- error texts ---- */

static const char *certificate_trouble(long result)
{
    switch (result) {
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
        return "its certificate is from an unknown CA; set ca_file to the CA's certificate";
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
        return "it does not answer in TLS; is %d its TLS port?";
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
        return "it offers no version of TLS that this machine allows (1.2 or later)";
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
        return "it wants a client certificate: set cert_file and key_file";
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

/* Explains the usual reasons in our words. Always TLS_BROKEN. */
static int broken(struct tls *t)
{
    long result = o.SSL_get_verify_result(t->ssl);
    unsigned long error = o.ERR_peek_last_error();
    int verified = ERR_GET_REASON(error) != SSL_R_CERTIFICATE_VERIFY_FAILED;
    const char *text = verified ? protocol_trouble(ERR_GET_REASON(error))
                                : certificate_trouble(result);
    int misnamed = !verified && (result == X509_V_ERR_HOSTNAME_MISMATCH ||
                                 result == X509_V_ERR_IP_ADDRESS_MISMATCH);
    if (misnamed && t->nameless)
        snprintf(t->why, sizeof(t->why),
                 "its certificate must have %s:%.60s as a subjectAltName, and has none; its "
                 "CN does not count",
                 is_address(t->name) ? "IP" : "DNS", t->name);
    else if (misnamed)
        snprintf(t->why, sizeof(t->why),
                 "its certificate (subjectAltName) is not for '%.60s'; if this is the "
                 "right server, set server_name to a name in the certificate",
                 t->name);
    else if (text)
        snprintf(t->why, sizeof(t->why), text, t->port);
    else
        snprintf(t->why, sizeof(t->why), "%s",
                 verified ? reason() : o.X509_verify_cert_error_string(result));
    o.ERR_clear_error();
    return TLS_BROKEN;
}

/* ---- bytes ---- */

/* Moves encrypted bytes into our buffer. 0, or -1: out of memory. */
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

/* What r <= 0 of an OpenSSL call means: TLS_MORE, TLS_CLOSED or TLS_BROKEN. */
static int meaning_of(struct tls *t, int r)
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
    int got = r == 1 ? 1 : meaning_of(t, r);
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
    int got = r > 0 ? r : meaning_of(t, r);
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
