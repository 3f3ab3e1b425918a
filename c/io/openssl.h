/* openssl.h - the functions of OpenSSL 1.1.1 or later that we use.
 *
 * We load libssl at first use, and call it through a table. Programs without TLS do not
 * pay for it. And where a program has an OpenSSL of its own (OpenResty links it
 * statically and exports it) the loader, which looks in the program first, would mix its
 * functions with ours.
 */
#ifndef OPENSSL_H
#define OPENSSL_H

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#define FUNCTIONS(X)                                                                     \
    X(ASN1_TIME_diff)                                                                    \
    X(BIO_ctrl)                                                                          \
    X(BIO_free)                                                                          \
    X(BIO_new)                                                                           \
    X(BIO_new_mem_buf)                                                                   \
    X(BIO_read)                                                                          \
    X(BIO_s_mem)                                                                         \
    X(BIO_write)                                                                         \
    X(ERR_clear_error)                                                                   \
    X(ERR_peek_last_error)                                                               \
    X(ERR_reason_error_string)                                                           \
    X(EVP_PKEY_free)                                                                     \
    X(OPENSSL_atexit)                                                                    \
    X(OPENSSL_init_ssl)                                                                  \
    X(OPENSSL_thread_stop)                                                               \
    X(PEM_read_bio_PrivateKey)                                                           \
    X(PEM_read_bio_X509_AUX)                                                             \
    X(SSL_CTX_ctrl)                                                                      \
    X(SSL_CTX_free)                                                                      \
    X(SSL_CTX_get_cert_store)                                                            \
    X(SSL_CTX_new)                                                                       \
    X(SSL_CTX_set_default_verify_paths)                                                  \
    X(SSL_CTX_set_options)                                                               \
    X(SSL_CTX_set_verify)                                                                \
    X(SSL_CTX_use_PrivateKey)                                                            \
    X(SSL_CTX_use_certificate)                                                           \
    X(SSL_ctrl)                                                                          \
    X(SSL_do_handshake)                                                                  \
    X(SSL_free)                                                                          \
    X(SSL_get0_param)                                                                    \
    X(SSL_get_certificate)                                                               \
    X(SSL_get_error)                                                                     \
    X(SSL_get_ex_data)                                                                   \
    X(SSL_get_ex_data_X509_STORE_CTX_idx)                                                \
    X(SSL_get_verify_result)                                                             \
    X(SSL_new)                                                                           \
    X(SSL_read)                                                                          \
    X(SSL_set_bio)                                                                       \
    X(SSL_set_connect_state)                                                             \
    X(SSL_set_ex_data)                                                                   \
    X(SSL_shutdown)                                                                      \
    X(SSL_write)                                                                         \
    X(TLS_client_method)                                                                 \
    X(X509_STORE_CTX_get0_cert)                                                          \
    X(X509_STORE_CTX_get_current_cert)                                                   \
    X(X509_STORE_CTX_get_ex_data)                                                        \
    X(X509_STORE_add_cert)                                                               \
    X(X509_VERIFY_PARAM_set1_host)                                                       \
    X(X509_VERIFY_PARAM_set1_ip_asc)                                                     \
    X(X509_VERIFY_PARAM_set_hostflags)                                                   \
    X(X509_free)                                                                         \
    X(X509_get0_notAfter)                                                                \
    X(X509_get_ext_by_NID)                                                               \
    X(X509_verify_cert_error_string)

struct openssl {
#define X(name) __typeof__(name) *name;
    FUNCTIONS(X)
#undef X
};

/* The table, once openssl_load() has filled it: o.SSL_new(ctx). */
extern struct openssl o;

/* Loads OpenSSL, once. NULL: loaded; else why not. */
const char *openssl_load(void);

#endif
