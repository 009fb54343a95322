// libnfc's public interface, and what Swift cannot say of it and of the system: fixed-size strings, macros.
#pragma once
#include <dlfcn.h>
#include <fcntl.h>
#include <nfc/nfc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/sysmacros.h>

/// nfc_open with a connection string of any length; NULL where it is too long for one, or the device does not open.
static inline nfc_device *cnfc_open(nfc_context *context, const char *reader) {
    nfc_connstring text;
    if (strlen(reader) >= sizeof text) return NULL;
    strcpy(text, reader);
    return nfc_open(context, text);
}

/// The connection strings of the devices libnfc finds, NFC_BUFSIZE_CONNSTRING octets each: fills at most `capacity`,
/// returns how many.
static inline size_t cnfc_list(nfc_context *context, char *texts, size_t capacity) {
    return nfc_list_devices(context, (nfc_connstring *)texts, capacity);
}

/// Whether a device's numbers are these.
static inline int cnfc_is_device(dev_t device, unsigned major_number, unsigned minor_number) {
    return major(device) == major_number && minor(device) == minor_number;
}

/// Sends a command of the reader's own to a PN53x: what libnfc.so exports for its tools and declares in no header.
/// Returns NFC_ENOTIMPL where this libnfc does not export it. Only for drivers of PN53x chips.
static inline int cnfc_pn53x_command(
    nfc_device *device, const uint8_t *command, size_t length, uint8_t *answer, size_t capacity, int milliseconds) {
    typedef int function(nfc_device *, const uint8_t *, const size_t, uint8_t *, const size_t, int);
    void *program = dlopen(NULL, RTLD_LAZY);
    function *send = program ? (function *)dlsym(program, "pn53x_transceive") : NULL;
    if (program) dlclose(program);
    return send ? send(device, command, length, answer, capacity, milliseconds) : NFC_ENOTIMPL;
}
