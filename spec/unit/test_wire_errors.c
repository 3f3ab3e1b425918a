/* test_wire_errors.c - which code an error of a server has. */
#include "node/wire.h"

#include <stdio.h>
#include <string.h>

#include "redlock.h"
#include "test.h"

/* ---- error replies ---- */

static const struct {
    const char *text;
    int code;
} errors[] = {
    {"NOAUTH Authentication required.", RL_AUTH},
    {"WRONGPASS invalid username-password pair or user is disabled.", RL_AUTH},
    {"ERR AUTH <password> called without any password configured for the default user. "
     "Are you sure your configuration is correct?", RL_AUTH},
    {"ERR invalid password", RL_AUTH},
    {"NOPERM this user has no permissions to run the 'eval' command", RL_NOPERM},
    {"NOPERM User app has no permissions to access one of the keys used", RL_NOPERM},
    {"READONLY You can't write against a read only replica.", RL_READONLY},
    {"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to "
     "persist to disk.", RL_READONLY},
    {"NOREPLICAS Not enough good replicas to write.", RL_READONLY},
    {"LOADING Redis is loading the dataset in memory", RL_LOADING},
    {"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN "
     "NOSAVE.", RL_LOADING},
    {"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
     RL_LOADING},
    {"TRYAGAIN Multiple keys request during rehashing of slot", RL_LOADING},
    {"OOM command not allowed when used memory > 'maxmemory'.", RL_OOM},
    {"OOM", RL_OOM},
    {"MOVED 3999 127.0.0.1:6381", RL_UNSUPPORTED},
    {"ASK 3999 127.0.0.1:6381", RL_UNSUPPORTED},
    {"CLUSTERDOWN Hash slot not served", RL_UNSUPPORTED},
    {"CROSSSLOT Keys in request don't hash to the same slot", RL_UNSUPPORTED},
    {"ERR unknown command `EVALSHA`, with args beginning with: `a`", RL_UNSUPPORTED},
    {"NOSCRIPT No matching script. Please use EVAL.", RL_SCRIPT},
    {"WRONGTYPE Operation against a key holding the wrong kind of value", RL_SCRIPT},
    {"ERR wrong number of arguments for 'get' command", RL_SCRIPT},
    {"", RL_SCRIPT},
    {"OOMPH is not out of memory", RL_SCRIPT},
    {"BUSYGROUP Consumer Group name already exists", RL_SCRIPT},
    {"oom in small letters", RL_SCRIPT},
    {"ERR OOM is not the word", RL_SCRIPT},
    /* Redis 6: what a command inside the script answered is wrapped. */
    {"ERR Error running script (call to f_0123456789012345678901234567890123456789): "
     "@user_script:1: @user_script: 1: -OOM command not allowed when used memory > "
     "'maxmemory'.", RL_OOM},
    {"ERR Error running script (call to f_ab): @user_script:3: @user_script: 3: "
     "-READONLY You can't write against a read only replica.", RL_READONLY},
    {"ERR Error running script (call to f_ab): @user_script:1: -MISCONF Redis is "
     "configured to save RDB snapshots", RL_READONLY},
    {"ERR Error running script (call to f_ab): @user_script:1: @user_script: 1: -NOPERM "
     "this user has no permissions", RL_NOPERM},
    {"ERR Error running script (call to f_ab): @user_script:1: WRONGTYPE Operation",
     RL_SCRIPT},
    {"ERR Error running script (call to f_ab): @user_script:1: attempt to index a nil "
     "value", RL_SCRIPT},
    {"ERR Error running script (call to f_ab): @user_script:1: @user_script: 1: The "
     "user executing the script can't run this command or subcommand", RL_NOPERM},
    {"ERR user_script:1: OOM in a message script: f_ab, on @user_script:1.", RL_SCRIPT},
    /* Redis 7: the word stands in front, the place behind. */
    {"OOM command not allowed when used memory > 'maxmemory'. script: f_ab, on "
     "@user_script:1.", RL_OOM},
    {"READONLY You can't write against a read only replica. script: f_ab, on "
     "@user_script:2.", RL_READONLY},
    {"NOREPLICAS Not enough good replicas to write. script: f_ab, on @user_script:1.",
     RL_READONLY},
    {"WRONGTYPE Operation against a key holding the wrong kind of value script: f_ab, "
     "on @user_script:1.", RL_SCRIPT},
    {"ERR The user executing the script can't run this command or subcommand script: "
     "f_ab, on @user_script:1.", RL_NOPERM},
    {"ERR The user executing the script can't access at least one of the keys mentioned "
     "in the command arguments script: f_ab, on @user_script:1.", RL_NOPERM},
    /* Redis 7.2 and Valkey; the place lacks the digest from Valkey 9 on, and is there only
     * when the script did not catch the error. */
    {"ERR ACL failure in script: User app has no permissions to run the 'get' command "
     "script: f_ab, on @user_script:1.", RL_NOPERM},
    {"ERR ACL failure in script: No permissions to access a key script: on "
     "@user_script:1.", RL_NOPERM},
    {"ERR ACL failure in script: No permissions to access a channel", RL_NOPERM},
    {"NOTALOCK the key x holds a list", RL_NOT_A_LOCK},
    {"ERR this is no ACL failure in script: f_ab", RL_SCRIPT},
    {"ERR Error compiling script (new function): user_script:1: '=' expected near '0'",
     RL_SCRIPT},
};

static void knows_the_errors(void)
{
    for (size_t k = 0; k < sizeof(errors) / sizeof(errors[0]); k++) {
        test_note("%.100s", errors[k].text);
        CHECK_INT(wire_error_code(errors[k].text), errors[k].code);
    }
}

/* The text that matters must be in the part of an error that is kept. */
static void knows_wrapped_errors_when_cut(void)
{
    struct wire w;
    REQUIRE(wire_init(&w) == 0);
    for (size_t k = 0; k < sizeof(errors) / sizeof(errors[0]); k++) {
        test_note("%.100s", errors[k].text);
        REQUIRE(wire_feed(&w, "-", 1) == 0);
        REQUIRE(wire_feed(&w, errors[k].text, strlen(errors[k].text)) == 0);
        REQUIRE(wire_feed(&w, "\r\n", 2) == 0);
        REQUIRE(wire_next(&w) == 1 && w.reply.type == REPLY_ERROR);
        CHECK_INT(wire_error_code(w.reply.text), errors[k].code);
    }
    wire_free(&w);
}

/* Whether any script can have run. */
static void knows_what_was_refused_as_a_whole(void)
{
    static const struct {
        const char *text;
        int whole;
    } replies[] = {
        {"NOPERM this user has no permissions to run the 'evalsha' command", 1},
        {"NOPERM User script has no permissions to run the 'eval' command", 1},
        {"ERR unknown command 'EVAL', with args beginning with: 'return 1' '1' 'script' ", 1},
        {"MOVED 1234 127.0.0.1:7001", 1},
        {"NOAUTH Authentication required.", 1},
        {"LOADING Redis is loading the dataset in memory", 1},
        {"BUSY Redis is busy running a script. You can only call SCRIPT KILL", 1},
        {"OOM command not allowed when used memory > 'maxmemory'.", 0},
        {"READONLY You can't write against a read only replica.", 0},
        {"ERR ACL failure in script: User app has no permissions to run the 'set' command", 0},
        {"ERR The user executing the script can't run this command or subcommand", 0},
        {"ERR Error running script (call to f_ab): @user_script:1: -MOVED 1 h:1", 0},
        {"ERR something else", 0},
    };
    for (size_t k = 0; k < sizeof(replies) / sizeof(replies[0]); k++) {
        struct reply reply = {.type = REPLY_ERROR};
        snprintf(reply.text, sizeof(reply.text), "%s", replies[k].text);
        test_note("%.100s", reply.text);
        CHECK_INT(wire_refused(&reply), replies[k].whole);
        reply.type = REPLY_STRING;
        CHECK_INT(wire_refused(&reply), 0);
    }
}

SUITE(wire_errors, T(knows_the_errors), T(knows_wrapped_errors_when_cut),
      T(knows_what_was_refused_as_a_whole));
