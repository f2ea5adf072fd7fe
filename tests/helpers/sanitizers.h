/* Sanitizers are slow, and see in some rounds what they see in many: what is long has fewer of them
 * there. All rounds are run in every other build. */
#ifndef TESTS_SANITIZERS_H
#define TESTS_SANITIZERS_H

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ADDRESS_SANITIZED 1
#endif
#if __has_feature(thread_sanitizer)
#define THREAD_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) && !defined(ADDRESS_SANITIZED)
#define ADDRESS_SANITIZED 1
#endif
#if defined(__SANITIZE_THREAD__) && !defined(THREAD_SANITIZED)
#define THREAD_SANITIZED 1
#endif
#ifndef ADDRESS_SANITIZED
#define ADDRESS_SANITIZED 0
#endif
#ifndef THREAD_SANITIZED
#define THREAD_SANITIZED 0
#endif

#define SANITIZED (ADDRESS_SANITIZED || THREAD_SANITIZED)

/* How often, how many, how far: a constant. */
#define FEWER(all, sanitized) (SANITIZED ? (sanitized) : (all))

/* First in a long test in which one thread does it all: nothing for the thread sanitizer to find.
 */
#define HAS_ONE_THREAD()                                                                           \
    do {                                                                                           \
        if (THREAD_SANITIZED)                                                                      \
            skip();                                                                                \
    } while (0)

#endif
