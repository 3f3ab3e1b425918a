/* test_clock.c - steps of a server's clock are told from drift and slow answers; and what
 * INFO says is read, whatever it says. */
#include "core/base/clock.h"

#include <string.h>

#include "node/info.h"
#include "test.h"

enum { PPM = 10000, TOLERANCE_MS = 50, AHEAD_MS = 777000 };

static void the_offset_is_known_up_to_the_round_trip(void)
{
    struct clock c = {0};
    CHECK_INT(clock_sample(&c, 1000, 1100, 1030 + AHEAD_MS, PPM, TOLERANCE_MS), 0);
    CHECK(c.lo_ms <= AHEAD_MS && AHEAD_MS <= c.hi_ms);
    CHECK_INT(c.hi_ms - c.lo_ms, 103);          /* 1 for the drift meanwhile */
    CHECK_INT(c.round_trip_ms, 100);
    /* A quick answer narrows it, a slow one does not widen it beyond the drift. */
    CHECK_INT(clock_sample(&c, 2000, 2002, 2001 + AHEAD_MS, PPM, TOLERANCE_MS), 0);
    CHECK(c.hi_ms - c.lo_ms <= 4);
    CHECK_INT(clock_sample(&c, 3000, 3900, 3001 + AHEAD_MS, PPM, TOLERANCE_MS), 0);
    CHECK(c.hi_ms - c.lo_ms <= 4 + 2 * 20);
    int64_t error_ms = clock_offset_ms(&c) - AHEAD_MS;
    CHECK(error_ms > -30 && error_ms < 30);
}

static void a_step_is_found_however_slow_the_answers(void)
{
    static const int64_t steps_ms[] = {60000, -60000, 3000, -3000};
    struct rng rng = {test_seed()};
    for (int run = 0; run < test_runs(2000); run++) {
        struct clock c = {0};
        int64_t now_ms = 5000, step_ms = steps_ms[run % 4];
        int64_t ahead_ms = AHEAD_MS, told_ms = 0;
        int at = 1 + rng_below(&rng, 10);
        for (int k = 0; k < 20; k++) {
            int64_t there_ms = rng_below(&rng, 400), back_ms = rng_below(&rng, 400);
            if (k == at)
                ahead_ms += step_ms;
            int64_t got_ms = clock_sample(&c, now_ms, now_ms + there_ms + back_ms,
                                          now_ms + there_ms + ahead_ms, PPM, TOLERANCE_MS);
            CHECK((got_ms != 0) == (k == at));
            told_ms += got_ms;
            now_ms += 1000 + there_ms + back_ms;
        }
        /* No more than it was; the rest is what the answers took. */
        CHECK(step_ms > 0 ? told_ms <= step_ms && told_ms > step_ms - 1000
                          : told_ms >= step_ms && told_ms < step_ms + 1000);
    }
}

/* Drift within the allowance is never a step, nor is a small one; many small ones are. */
static void drift_is_no_step(void)
{
    for (int ppm = -PPM; ppm <= PPM; ppm += PPM / 4) {
        struct clock c = {0};
        for (int64_t now_ms = 1000; now_ms < 600000; now_ms += 1000)
            CHECK_INT(clock_sample(&c, now_ms, now_ms + 1,
                                   AHEAD_MS + now_ms + now_ms * ppm / 1000000, PPM,
                                   TOLERANCE_MS), 0);
    }
    struct clock c = {0};
    clock_sample(&c, 1000, 1001, AHEAD_MS + 1000, PPM, TOLERANCE_MS);
    CHECK_INT(clock_sample(&c, 2000, 2001, AHEAD_MS + 2000 + 40, PPM, TOLERANCE_MS), 0);
    CHECK_INT(clock_sample(&c, 9000, 9001, AHEAD_MS + 9000 + 40, PPM, TOLERANCE_MS), 0);
    int64_t step_ms = 0;
    for (int k = 1; k <= 10 && !step_ms; k++)     /* a tenth too fast */
        step_ms = clock_sample(&c, 9000 + 1000 * k, 9001 + 1000 * k,
                               AHEAD_MS + 9040 + 1100 * k, PPM, TOLERANCE_MS);
    CHECK(step_ms > TOLERANCE_MS);
}

/* Also while an answer waits for us: the process was paused between its question and now. */
static void drift_while_an_answer_waits_is_no_step(void)
{
    struct rng rng = {test_seed()};
    for (int run = 0; run < test_runs(2000); run++) {
        struct clock c = {0};
        int64_t now_ms = 1000, ppm = rng_below(&rng, 2 * PPM + 1) - PPM;
        for (int k = 0; k < 20; k++) {
            int64_t sent_ms = now_ms, there_ms = now_ms + rng_below(&rng, 3);
            now_ms = there_ms + (rng_below(&rng, 2) ? rng_below(&rng, 5000) : 1);
            CHECK_INT(clock_sample(&c, sent_ms, now_ms,
                                   AHEAD_MS + there_ms + there_ms * ppm / 1000000, PPM, 0), 0);
            now_ms += rng_below(&rng, 1000);
        }
    }
}

/* ---- INFO ---- */

static struct info read_info(const char *text)
{
    struct info info = {0};
    info_read(&info, text, strlen(text));
    return info;
}

static void reads_what_it_knows(void)
{
    struct info info = read_info(
        "# Server\r\nredis_version:7.0.15\r\nrun_id:0123456789abcdef\r\n"
        "uptime_in_seconds:42\r\n\r\n# Replication\r\nrole:slave\r\n"
        "master_host:10.0.0.1\r\nmaster_port:6380\r\n# Persistence\r\naof_enabled:1\r\n"
        "rdb_last_bgsave_time_sec:-1\r\n# Memory\r\nmaxmemory:1048576\r\nmaxmemory_policy:allkeys-lru\r\n");
    CHECK_INT(info.server.known, 1);
    CHECK_STR(info.server.run_id, "0123456789abcdef");
    CHECK_STR(info.server.version, "7.0.15");
    CHECK_INT(info.server.uptime_s, 42);
    CHECK_INT(info.server.role, RL_ROLE_REPLICA);
    CHECK_STR(info.server.master_host, "10.0.0.1");
    CHECK_INT(info.server.master_port, 6380);
    CHECK_INT(info.server.aof, 1);
    CHECK_INT(info.server.rdb, 0);
    CHECK_INT(info.server.maxmemory, 1048576);
    CHECK_STR(info.server.policy, "allkeys-lru");
    info = read_info("redis_version:7.2.4\nvalkey_version:8.0.1\nrole:master");
    CHECK_STR(info.server.version, "valkey 8.0.1");
    CHECK_INT(info.server.role, RL_ROLE_MASTER);
    CHECK_INT(info.cluster, 0);
    CHECK_INT(read_info("redis_mode:cluster\r\n").cluster, 1);
    CHECK_INT(read_info("server_mode:cluster\r\n").cluster, 1);        /* Valkey's word */
    CHECK_INT(read_info("server_mode:standalone\r\n").cluster, 0);
    CHECK_INT(read_info("uptime_in_seconds:-5\r\n").server.uptime_s, -5);
}

static void survives_anything(void)
{
    static const char *const texts[] = {
        "", "\r\n", ":", "run_id", "run_id:", "run_id:a b\r\n", "run_id:\x01\r\n",
        "maxmemory:99999999999999999999999999\r\n", "maxmemory:-\r\n", "maxmemory:1x\r\n",
    };
    for (size_t k = 0; k < sizeof(texts) / sizeof(texts[0]); k++) {
        struct info info = read_info(texts[k]);
        test_note("%s", texts[k]);
        CHECK_STR(info.server.run_id, "");
        CHECK_INT(info.server.maxmemory, 0);
    }
    test_note(NULL);
    char text[1000];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    memcpy(text, "run_id:", 7);
    CHECK_INT(strlen(read_info(text).server.run_id), RL_RUN_ID_MAX - 1);
    memcpy(text, "valkey_version:", 15);
    CHECK_INT(strlen(read_info(text).server.version), RL_WORD_MAX - 1);
    struct rng rng = {test_seed()};
    static const char letters[] = "run_id:role\r\n: 09";
    for (int run = 0; run < test_runs(2000); run++) {
        size_t len = (size_t)rng_below(&rng, 200);
        for (size_t i = 0; i < len; i++)
            text[i] = letters[rng_below(&rng, sizeof(letters))];
        struct info info = {0};
        info_read(&info, text, len);
        CHECK(strlen(info.server.run_id) < RL_RUN_ID_MAX);
    }
}

SUITE(clock, T(the_offset_is_known_up_to_the_round_trip),
      T(a_step_is_found_however_slow_the_answers), T(drift_is_no_step),
      T(drift_while_an_answer_waits_is_no_step),
      T(reads_what_it_knows), T(survives_anything));
