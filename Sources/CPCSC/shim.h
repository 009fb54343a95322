// The PC/SC service's interface, and what Swift cannot import of it: macros with casts.
#pragma once
#include <winscard.h>

/// The results this program tells apart, as numbers Swift can switch over.
enum cpcsc_result {
    CPCSC_SUCCESS = 0,
    CPCSC_CANCELLED = 0x80100002,
    CPCSC_INVALID_HANDLE = 0x80100003,
    CPCSC_UNKNOWN_READER = 0x80100009,
    CPCSC_TIMEOUT = 0x8010000A,
    CPCSC_SHARING_VIOLATION = 0x8010000B,
    CPCSC_NO_SMARTCARD = 0x8010000C,
    CPCSC_PROTO_MISMATCH = 0x8010000F,
    CPCSC_NOT_READY = 0x80100010,
    CPCSC_COMM_ERROR = 0x80100013,
    CPCSC_READER_UNAVAILABLE = 0x80100017,
    CPCSC_NO_SERVICE = 0x8010001D,
    CPCSC_SERVICE_STOPPED = 0x8010001E,
    CPCSC_NO_ACCESS = 0x80100027,
    CPCSC_NO_READERS_AVAILABLE = 0x8010002E,
    CPCSC_UNRESPONSIVE_CARD = 0x80100066,
    CPCSC_UNPOWERED_CARD = 0x80100067,
    CPCSC_RESET_CARD = 0x80100068,
    CPCSC_REMOVED_CARD = 0x80100069,
    CPCSC_SECURITY_VIOLATION = 0x8010006A,
};

/// The request's head for a protocol.
static inline const SCARD_IO_REQUEST *cpcsc_head(DWORD protocol) {
    return protocol == SCARD_PROTOCOL_T0 ? SCARD_PCI_T0 : SCARD_PCI_T1;
}
