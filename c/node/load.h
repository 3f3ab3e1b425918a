/* load.h - the dlopen() flags for a library that must call its own functions, not those
 * of the same names that were loaded before it (RTLD_DEEPBIND).
 *
 * musl lacks this flag: there, what was loaded first wins. Under a sanitizer the flag is
 * off, so that its malloc and the like are found first.
 */
#ifndef LOAD_H
#define LOAD_H

#include <dlfcn.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define LOAD_SANITIZED
#endif
#endif

#if defined(RTLD_DEEPBIND) && !defined(__SANITIZE_ADDRESS__) &&                          \
    !defined(__SANITIZE_THREAD__) && !defined(LOAD_SANITIZED)
enum { LOAD = RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND };
#else
enum { LOAD = RTLD_NOW | RTLD_LOCAL };
#endif

#endif
