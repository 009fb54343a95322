#pragma once
// SHA256_CTX is deprecated since OpenSSL 3.0. What replaces it allocates for each hash.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
