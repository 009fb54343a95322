#pragma once
#include <mosquitto.h>
#include <mqtt_protocol.h>
#include <pthread.h>
#include <sys/eventfd.h>

// glibc shows it to programs that ask for its extensions only.
int pthread_setname_np(pthread_t thread, const char *name);
