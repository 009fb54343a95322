#pragma once
#include <dispatch/dispatch.h>

static inline void dispatch_timer_make_queue(void *queue) {
    *(dispatch_queue_t *)queue = dispatch_queue_create("tasks' timers", NULL);
}

/// Calls `function` in so many nanoseconds of CLOCK_BOOTTIME, which goes on while the machine sleeps, or else of
/// CLOCK_MONOTONIC, on a serial queue.
///
/// It is what Dispatch's Swift names leave out. A time's highest bit says that it is of CLOCK_BOOTTIME, as the Swift
/// runtime's own executor has it.
static inline void dispatch_timer(
    int counts_sleep, int64_t nanoseconds, void *context, dispatch_function_t function) {
    static dispatch_once_t once;
    static dispatch_queue_t queue;
    dispatch_once_f(&once, &queue, dispatch_timer_make_queue);
    dispatch_after_f(
        dispatch_time(counts_sleep ? 1ull << 63 : DISPATCH_TIME_NOW, nanoseconds), queue, context, function);
}
