/* load.h - how a library is opened at run time: so that it calls itself, and nothing of
 * the same name that was loaded before it.
 *
 * musl has no such flag: what was loaded before comes first there. The sanitizers' own
 * versions of malloc and the like must be found first anyway.
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
