#include "StoreFloor.h"
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int fail(sqlite3 *db, const char *what) {
    fprintf(stderr, "floor: %s: %s\n", what, db ? sqlite3_errmsg(db) : "no database");
    return -1;
}

/* The statements that the store runs for one new glucose reading, in its order. Each has the query that gives its
   parameters for every reading, in the order of readings. */
static const struct { const char *sql, *parameters; int is_query; } steps[] = {
    {"SELECT r.key FROM reading AS r WHERE r.id = ?",
     "SELECT id FROM reading ORDER BY key", 1},
    {"INSERT INTO reading (key, id, kind, device, user, sequence_epoch, clash, sequence, base_time, time_offset_minutes,"
     " time_offset_unknown, record_exclusion, time_exclusion, time, time_basis, time_uncertainty_minutes,"
     " clock_difference, clock_read_at, received_at, content)"
     " VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
     "SELECT key, id, kind, device, user, sequence_epoch, clash, sequence, base_time, time_offset_minutes,"
     " time_offset_unknown, record_exclusion, time_exclusion, time, time_basis, time_uncertainty_minutes,"
     " clock_difference, clock_read_at, received_at, content"
     " FROM reading ORDER BY key", 0},
    {"INSERT INTO frame (key, device, contact, format, ordinal, received_at, state, mark, payload)"
     " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
     "SELECT key, device, contact, format, ordinal, received_at, state, mark, payload FROM frame ORDER BY key", 0},
    {"INSERT OR IGNORE INTO reading_frame (reading, frame, role) VALUES (?, ?, ?)",
     "SELECT reading, frame, role FROM reading_frame ORDER BY reading", 0},
    {"INSERT INTO outbox (reading, destination, user, resource, provider, type, timestamp, share, tag)"
     " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
     " ON CONFLICT (destination, user, resource, provider, type, timestamp, share) DO NOTHING",
     "SELECT reading, destination, user, resource, provider, type, timestamp, share, tag FROM outbox"
     " ORDER BY reading", 0},
    {"SELECT frame, contact FROM waiting_context WHERE device = ? AND sequence_epoch = ? AND sequence = ? ORDER BY frame",
     "SELECT device, sequence_epoch, sequence FROM reading ORDER BY key", 1},
};
enum { STEPS = sizeof steps / sizeof *steps };

typedef struct { sqlite3_value **values; int columns; int64_t rows, room; } table;

static int load(sqlite3 *db, const char *sql, table *t) {
    sqlite3_stmt *select;
    if (sqlite3_prepare_v2(db, sql, -1, &select, 0)) return fail(db, sql);
    memset(t, 0, sizeof *t);
    t->columns = sqlite3_column_count(select);
    while (sqlite3_step(select) == SQLITE_ROW) {
        if (t->rows == t->room) {
            t->room = t->room ? t->room * 2 : 1024;
            t->values = realloc(t->values, (size_t)(t->room * t->columns) * sizeof *t->values);
        }
        for (int c = 0; c < t->columns; c++)
            t->values[t->rows * t->columns + c] = sqlite3_value_dup(sqlite3_column_value(select, c));
        t->rows++;
    }
    sqlite3_finalize(select);
    return 0;
}

static int bind(sqlite3_stmt *s, int index, sqlite3_value *v) {
    switch (sqlite3_value_type(v)) {
    case SQLITE_INTEGER: return sqlite3_bind_int64(s, index, sqlite3_value_int64(v));
    case SQLITE_TEXT: return sqlite3_bind_text(s, index, (const char *)sqlite3_value_text(v), sqlite3_value_bytes(v), SQLITE_STATIC);
    case SQLITE_BLOB: return sqlite3_bind_blob(s, index, sqlite3_value_blob(v), sqlite3_value_bytes(v), SQLITE_STATIC);
    default: return sqlite3_bind_null(s, index);
    }
}

double floor_ingest(const char *source, const char *target, int rows_per_transaction) {
    sqlite3 *from, *to;
    table tables[STEPS];
    sqlite3_stmt *statements[STEPS], *begin, *commit;
    if (sqlite3_open_v2(source, &from, SQLITE_OPEN_READONLY, 0)) return fail(from, source);
    for (int i = 0; i < STEPS; i++)
        if (load(from, steps[i].parameters, &tables[i])) return -1;
    sqlite3_close(from);
    if (sqlite3_open_v2(target, &to, SQLITE_OPEN_READWRITE, 0)) return fail(to, target);
    if (sqlite3_exec(to, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;"
                         "PRAGMA cache_size = -2048; PRAGMA temp_store = MEMORY", 0, 0, 0)) return fail(to, "pragmas");
    for (int i = 0; i < STEPS; i++)
        if (sqlite3_prepare_v2(to, steps[i].sql, -1, &statements[i], 0)) return fail(to, steps[i].sql);
    if (sqlite3_prepare_v2(to, "BEGIN IMMEDIATE", -1, &begin, 0)) return fail(to, "begin");
    if (sqlite3_prepare_v2(to, "COMMIT", -1, &commit, 0)) return fail(to, "commit");
    double start = now();
    for (int64_t row = 0; row < tables[0].rows; row++) {
        if (row % rows_per_transaction == 0) {
            if (row && sqlite3_step(commit) != SQLITE_DONE) return fail(to, "commit");
            sqlite3_reset(commit);
            if (sqlite3_step(begin) != SQLITE_DONE) return fail(to, "begin");
            sqlite3_reset(begin);
        }
        for (int i = 0; i < STEPS; i++) {
            table *t = &tables[i];
            for (int c = 0; c < t->columns; c++)
                if (bind(statements[i], c + 1, t->values[row * t->columns + c])) return fail(to, steps[i].sql);
            int code = sqlite3_step(statements[i]);
            if (code != SQLITE_DONE) return fail(to, steps[i].sql);
            sqlite3_reset(statements[i]);
        }
    }
    if (sqlite3_step(commit) != SQLITE_DONE) return fail(to, "commit");
    sqlite3_reset(commit);
    double seconds = now() - start;
    for (int i = 0; i < STEPS; i++) {
        sqlite3_finalize(statements[i]);
        for (int64_t v = 0; v < tables[i].rows * tables[i].columns; v++) sqlite3_value_free(tables[i].values[v]);
        free(tables[i].values);
    }
    sqlite3_finalize(begin);
    sqlite3_finalize(commit);
    sqlite3_close(to);
    return seconds;
}

double floor_query(const char *path, const char *sql, int times, int64_t *rows) {
    sqlite3 *db;
    sqlite3_stmt *select;
    volatile int64_t sum = 0;
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, 0)) return fail(db, path);
    if (sqlite3_prepare_v2(db, sql, -1, &select, 0)) return fail(db, sql);
    int columns = sqlite3_column_count(select);
    double start = now();
    for (int i = 0; i < times; i++) {
        *rows = 0;
        while (sqlite3_step(select) == SQLITE_ROW) {
            for (int c = 0; c < columns; c++) sum += sqlite3_column_type(select, c) == SQLITE_INTEGER
                ? sqlite3_column_int64(select, c) : sqlite3_column_bytes(select, c);
            ++*rows;
        }
        sqlite3_reset(select);
    }
    double seconds = (now() - start) / times;
    sqlite3_finalize(select);
    sqlite3_close(db);
    return seconds;
}
