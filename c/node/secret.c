/* secret.c - the credentials of a node's connections. */
#include <stdlib.h>
#include <string.h>

#include "node/node.h"

void secret_free(char *secret)
{
    if (secret)
        explicit_bzero(secret, strlen(secret));
    free(secret);
}

void secret_hide(const char *secret, char *text)
{
    size_t len = secret ? strlen(secret) : 0;
    for (char *at = text; len && (at = strstr(at, secret)); at += len)
        memset(at, '*', len);
}

int node_set_password(struct node_config *config, const char *user, const char *password)
{
    char *user2 = user ? strdup(user) : NULL, *password2 = strdup(password);
    if ((user && !user2) || !password2) {
        free(user2);
        secret_free(password2);
        return -1;
    }
    node_config_free(config);
    config->user = user2;
    config->password = password2;
    return 0;
}

void node_config_free(struct node_config *config)
{
    free(config->user);
    secret_free(config->password);
    config->user = config->password = NULL;
}
