/* seedshim.c - preloaded: a LuaJIT whose hashes and compiler start from SEED, not from a
 * random number, so that it executes the same instructions each time. The library draws its
 * random numbers with getrandom(), which is left alone.
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>

static uint64_t seed(void)
{
    const char *text = getenv("SEED");
    return text ? strtoull(text, NULL, 10) : 1;
}

/* LuaJIT asks for its seed in this way. */
long syscall(long number, ...)
{
    long arg[6];
    va_list args;
    va_start(args, number);
    for (int i = 0; i < 6; i++)
        arg[i] = va_arg(args, long);
    va_end(args);
    if (number == SYS_getrandom) {
        uint64_t x = seed() * 0x9E3779B97F4A7C15;
        for (long i = 0; i < arg[1]; i++, x = x * 6364136223846793005 + 1442695040888963407)
            ((unsigned char *)arg[0])[i] = (unsigned char)(x >> 56);
        return arg[1];
    }
    long (*real)(long, ...) = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    return real(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
}

/* OpenResty's also takes random(), with a seed of its own. */
void srandom(unsigned value)
{
    void (*real)(unsigned) = (void (*)(unsigned))dlsym(RTLD_NEXT, "srandom");
    (void)value;
    real((unsigned)seed());
}
