#pragma once
#include <stdbool.h>
#include <string.h>

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
extern int sqlite3_value_type(struct sqlite3_value *);
extern int sqlite3_value_bytes(struct sqlite3_value *);
extern const void *sqlite3_value_blob(struct sqlite3_value *);

static inline bool row_hook_is_there(void) {
    return sqlite3_preupdate_hook && sqlite3_preupdate_old && sqlite3_preupdate_new;
}

/// Reads an integer of the row as it becomes, or as it was; whether that could be read.
static inline bool row_hook_integer(struct sqlite3 *db, int column, bool is_new, long long *integer) {
    struct sqlite3_value *value = 0;
    int code = is_new ? sqlite3_preupdate_new(db, column, &value) : sqlite3_preupdate_old(db, column, &value);
    if (code != 0 || !value) return false;
    *integer = sqlite3_value_int64(value);
    return true;
}

/// Whether a column of the row that is changed becomes another value.
static inline bool row_hook_differs(struct sqlite3 *db, int column) {
    struct sqlite3_value *former = 0, *next = 0;
    if (sqlite3_preupdate_old(db, column, &former) != 0 || sqlite3_preupdate_new(db, column, &next) != 0) return true;
    if (!former || !next || sqlite3_value_type(former) != sqlite3_value_type(next)) return true;
    // SQLITE_INTEGER; of NULL there are no octets.
    if (sqlite3_value_type(former) == 1) return sqlite3_value_int64(former) != sqlite3_value_int64(next);
    const void *octets = sqlite3_value_blob(former), *others = sqlite3_value_blob(next);
    int count = sqlite3_value_bytes(former);
    return count != sqlite3_value_bytes(next) || (count > 0 && memcmp(octets, others, (size_t)count) != 0);
}
