#include "CardSocket.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char path[64];

__attribute__((constructor)) static void set_path(void) {
    snprintf(path, sizeof path, "/tmp/healthrelay-pcsc-%d/comm", (int)getpid());
    setenv("PCSCLITE_CSOCK_NAME", path, 1);
}

const char *card_socket(void) { return path; }
