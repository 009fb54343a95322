// What glibc shows only to programs that ask for its extensions.
#pragma once
#include <spawn.h>
#include <unistd.h>

/// Closes every descriptor from `from` on in the new process.
int posix_spawn_file_actions_addclosefrom_np(posix_spawn_file_actions_t *actions, int from);

/// pipe with flags.
int pipe2(int descriptors[2], int flags);
