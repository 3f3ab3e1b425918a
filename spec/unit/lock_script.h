/* lock_script.h - the plain lock's scripts, as kinds/plain_lock.lua puts them together. */
#ifndef LOCK_SCRIPT_H
#define LOCK_SCRIPT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOCK_SCRIPT_MAX = 8192 };

/* Reads acquire, extend, release or peek to text, with a closing 0. Returns its length. */
static size_t lock_script(const char *name, char text[LOCK_SCRIPT_MAX])
{
    int peek = !strcmp(name, "peek");
    const char *files[] = {peek ? "shape" : name, peek ? "only_lock" : "shape",
                           peek                        ? "peek"
                           : !strcmp(name, "acquire") ? "refused"
                                                       : "not_ours"};
    size_t len = 0;
    for (int i = 0; i < 3; i++) {
        char path[64];
        snprintf(path, sizeof(path), "lua/redlock/scripts/lock/%s.lua", files[i]);
        FILE *file = fopen(path, "r");
        size_t n = file ? fread(text + len, 1, LOCK_SCRIPT_MAX - 1 - len, file) : 0;
        if (!n) {
            perror(path);
            exit(2);
        }
        fclose(file);
        len += n;
    }
    text[len] = '\0';
    return len;
}

#endif
