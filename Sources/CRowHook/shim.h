#pragma once
#include <stdbool.h>

// SQLite's header declares these only to those who define SQLITE_ENABLE_PREUPDATE_HOOK, and a system's library may have
// been built without them: their addresses are then null.
struct sqlite3;
struct sqlite3_value;
typedef void (*row_hook)(
    void *context, struct sqlite3 *db, int operation, const char *schema, const char *table, long long key, long long new_key);
extern void *sqlite3_preupdate_hook(struct sqlite3 *, row_hook, void *) __attribute__((weak));
extern int sqlite3_preupdate_old(struct sqlite3 *, int, struct sqlite3_value **) __attribute__((weak));
extern int sqlite3_preupdate_new(struct sqlite3 *, int, struct sqlite3_value **) __attribute__((weak));
extern long long sqlite3_value_int64(struct sqlite3_value *);

static inline bool row_hook_is_there(void) {
    return sqlite3_preupdate_hook && sqlite3_preupdate_old && sqlite3_preupdate_new;
}

/// The first column of the row that is inserted, changed or deleted, for a table without row ids.
static inline long long row_hook_first_column(struct sqlite3 *db, bool is_insertion) {
    struct sqlite3_value *value = 0;
    int code = is_insertion ? sqlite3_preupdate_new(db, 0, &value) : sqlite3_preupdate_old(db, 0, &value);
    return code == 0 && value ? sqlite3_value_int64(value) : 0;
}
