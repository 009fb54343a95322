#pragma once
#include <stdint.h>

/// A bare C loop over SQLite: it writes again, into an empty store of the same schema, the rows that the store under
/// measurement has written, by the same statements in the same order and transactions of the same size.

/// Copies every ingest row of the store at `source` into memory, then writes them into the store at `target` (same
/// schema, no rows of these tables). Returns seconds for the writing alone, or a negative number after an error, whose
/// words are on stderr.
double floor_ingest(const char *source, const char *target, int rows_per_transaction);

/// Runs a query that gives rows and reads every column of them, `times` times. Returns seconds for one, negative after
/// an error. `*rows` is how many rows came each time.
double floor_query(const char *path, const char *sql, int times, int64_t *rows);
