// How many tests run at a time, for a `swift test` without any settings. Swift Testing would begin them all at once, which
// takes over a thousand file descriptors; Foundation's Process fails with that many.
#include <stdlib.h>

#include "TestWidth.h"

__attribute__((constructor)) static void set_width(void) {
    setenv("SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH", "6", 0);
}
