import CLibCrypto

/// libcrypto, as this module uses it.
enum LibCrypto {
    /// Made ready before its first use, so that `exit` leaves it alone.
    ///
    /// Queues open and close sealed rows on threads of Dispatch, which may still run, or end, while the process that
    /// embeds the store is in `exit`. libcrypto frees there what each thread's end reads (OPENSSL_init_crypto(3)).
    /// Where the process has used libcrypto before, its own choice stays.
    static let isReady = OPENSSL_init_crypto(UInt64(OPENSSL_INIT_NO_ATEXIT), nil) == 1
}
