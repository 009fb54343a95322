// Stands before the C library's allocator in this process, so that no allocation escapes the count.
#include "CDecode.h"

#include <errno.h>
#include <stdatomic.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static _Atomic uint64_t count;

uint64_t allocation_count(void) { return atomic_load(&count); }

void *malloc(size_t size) {
    atomic_fetch_add(&count, 1);
    return __libc_malloc(size);
}

void *calloc(size_t members, size_t size) {
    atomic_fetch_add(&count, 1);
    return __libc_calloc(members, size);
}

void *realloc(void *old, size_t size) {
    atomic_fetch_add(&count, 1);
    return __libc_realloc(old, size);
}

void *memalign(size_t alignment, size_t size) {
    atomic_fetch_add(&count, 1);
    return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void **result, size_t alignment, size_t size) {
    *result = memalign(alignment, size);
    return *result ? 0 : ENOMEM;
}
