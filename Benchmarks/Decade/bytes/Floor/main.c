// A bare loop over SQLite that stores what a plan says, with a commit wherever the plan has one.
//
//   decade-floor fill|days PLAN DATABASE
//
// It stores the same facts as the gateway with as little as a program would: a row for each contact and each reading with
// the octets that it came as, in the clear, and a row for each destination. "fill" does what stands before the plan's line
// "days", with one commit for a thousand commits of the plan, and notes all of it as delivered. "days" does the rest and
// prints how many bytes the kernel counts as written by this process.
#include <sqlite3.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static sqlite3 *db;

static void check(int code, const char *what) {
    if (code == SQLITE_OK || code == SQLITE_DONE || code == SQLITE_ROW) return;
    fprintf(stderr, "decade-floor: %s: %s\n", what, sqlite3_errmsg(db));
    exit(1);
}

static void run(const char *sql) { check(sqlite3_exec(db, sql, 0, 0, 0), sql); }

static sqlite3_stmt *prepare(const char *sql) {
    sqlite3_stmt *statement;
    check(sqlite3_prepare_v2(db, sql, -1, &statement, 0), sql);
    return statement;
}

static void step(sqlite3_stmt *statement) {
    check(sqlite3_step(statement), sqlite3_sql(statement));
    sqlite3_reset(statement);
}

static long long written(void) {
    FILE *file = fopen("/proc/self/io", "r");
    char line[128];
    long long bytes = 0;
    while (file && fgets(line, sizeof line, file)) sscanf(line, "write_bytes: %lld", &bytes);
    if (file) fclose(file);
    return bytes;
}

static int octets(const char *hexadecimal, unsigned char *into) {
    int count = 0;
    unsigned value;
    for (; sscanf(hexadecimal, "%2x", &value) == 1; hexadecimal += 2) into[count++] = (unsigned char)value;
    return count;
}

static int destination(const char *name) {
    return strcmp(name, "archive") == 0 ? 1 : strcmp(name, "diary") == 0 ? 2 : 3;
}

static int kind(const char *name) {
    const char *names[] = {"glucose", "blood_pressure", "weight", "heart_rate", "temperature", 0};
    for (int i = 0; names[i]; i++)
        if (strcmp(name, names[i]) == 0) return i + 1;
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 4) return 64;
    int is_fill = strcmp(argv[1], "fill") == 0, is_measured = 0, opened = 0, pending = 0;
    FILE *plan = fopen(argv[2], "r");
    if (!plan) return 66;
    check(sqlite3_open(argv[3], &db), argv[3]);
    run("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -2048");
    if (is_fill)
        run("CREATE TABLE contact (key INTEGER PRIMARY KEY, device INTEGER NOT NULL, started_at INTEGER, ended_at INTEGER);"
            "CREATE TABLE reading (key INTEGER PRIMARY KEY, kind INTEGER NOT NULL, device INTEGER NOT NULL,"
            " time INTEGER NOT NULL, a REAL, b REAL, c REAL, octets BLOB NOT NULL);"
            "CREATE UNIQUE INDEX reading_device ON reading (device, time, kind);"
            "CREATE INDEX reading_time ON reading (time);"
            "CREATE TABLE growing (key INTEGER PRIMARY KEY, octets BLOB);"
            "CREATE TABLE delivery (reading INTEGER NOT NULL, destination INTEGER NOT NULL, delivered_at INTEGER,"
            " PRIMARY KEY (reading, destination)) WITHOUT ROWID;"
            "CREATE INDEX delivery_waiting ON delivery (destination, reading) WHERE delivered_at IS NULL");
    sqlite3_stmt *contact = prepare("INSERT INTO contact (device, started_at) VALUES (?, ?)");
    sqlite3_stmt *ended = prepare("UPDATE contact SET ended_at = ? WHERE key = (SELECT max(key) FROM contact)");
    sqlite3_stmt *reading =
        prepare("INSERT OR IGNORE INTO reading (kind, device, time, a, b, c, octets) VALUES (?, ?, ?, ?, ?, ?, ?)");
    sqlite3_stmt *growing = prepare("INSERT OR REPLACE INTO growing VALUES (1, ?)");
    sqlite3_stmt *queue = prepare("INSERT INTO delivery VALUES (?, ?, ?)");
    sqlite3_stmt *acknowledge = prepare(
        "UPDATE delivery SET delivered_at = ?1 WHERE destination = ?2 AND delivered_at IS NULL AND reading IN"
        " (SELECT reading FROM delivery WHERE destination = ?2 AND delivered_at IS NULL ORDER BY reading LIMIT ?3)");
    static char line[1 << 16];
    static unsigned char payload[1 << 15];
    int64_t now = 1782864000, readings = 0, commits = 0;
    int is_open = 0;
    long long before = 0;
    while (fgets(line, sizeof line, plan)) {
        line[strcspn(line, "\n")] = 0;
        char *field[9] = {0}, *rest = line;
        for (int i = 0; i < 9 && rest; i++) field[i] = strsep(&rest, "\t");
        if (strcmp(field[0], "days") == 0) {
            if (is_fill) break;
            is_measured = 1;
            before = written();
            continue;
        }
        if (!is_fill && !is_measured) continue;
        if (!opened) {
            run("BEGIN IMMEDIATE");
            opened = 1;
        }
        int commits_here = 1;
        if (strcmp(field[0], "contact") == 0) {
            sqlite3_stmt *statement = is_open ? ended : contact;
            sqlite3_bind_int64(statement, 1, is_open ? now : 1);
            if (!is_open) sqlite3_bind_int64(statement, 2, now);
            step(statement);
            is_open = !is_open;
        } else if (strcmp(field[0], "growing") == 0) {
            int count = octets(field[1], payload);
            sqlite3_bind_blob(growing, 1, payload, count, SQLITE_STATIC);
            step(growing);
        } else if (strcmp(field[0], "reading") == 0) {
            int64_t device = strtoll(field[2], 0, 10);
            now = strtoll(field[3], 0, 10);
            sqlite3_bind_int(reading, 1, kind(field[1]));
            sqlite3_bind_int64(reading, 2, device);
            sqlite3_bind_int64(reading, 3, now);
            for (int i = 0; i < 3; i++)
                if (*field[4 + i]) sqlite3_bind_double(reading, 4 + i, atof(field[4 + i]));
                else sqlite3_bind_null(reading, 4 + i);
            int count = octets(field[7], payload);
            sqlite3_bind_blob(reading, 7, payload, count, SQLITE_STATIC);
            step(reading);
            int64_t key = sqlite3_last_insert_rowid(db);
            for (int place = 1; place <= 3 && sqlite3_changes(db); place++) {
                if (place == 2 && kind(field[1]) != 1) continue;
                sqlite3_bind_int64(queue, 1, key);
                sqlite3_bind_int(queue, 2, place);
                if (is_fill) sqlite3_bind_int64(queue, 3, now);
                else sqlite3_bind_null(queue, 3);
                step(queue);
            }
            readings++;
            commits_here = 0;
        } else if (strcmp(field[0], "acknowledge") == 0) {
            sqlite3_bind_int64(acknowledge, 1, now);
            sqlite3_bind_int(acknowledge, 2, destination(field[1]));
            sqlite3_bind_int64(acknowledge, 3, strtoll(field[2], 0, 10));
            step(acknowledge);
        }
        if (!commits_here) continue;
        commits++;
        if (is_fill && ++pending < 1000) continue;
        run("COMMIT");
        opened = pending = 0;
    }
    if (opened) run("COMMIT");
    run("PRAGMA wal_checkpoint(TRUNCATE)");
    long long during = written() - before;
    printf("{\"readings\":%lld,\"commits\":%lld,\"written\":%lld}\n", (long long)readings, (long long)commits, during);
    for (sqlite3_stmt *each; (each = sqlite3_next_stmt(db, 0));) sqlite3_finalize(each);
    return sqlite3_close(db) == SQLITE_OK ? 0 : 1;
}
