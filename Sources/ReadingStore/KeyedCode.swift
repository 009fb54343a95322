import CLibCrypto
import Crypto

/// The first 16 octets of HMAC-SHA256 (RFC 2104) under a key, which is made ready once: that takes longer than a row's octets.
///
/// Crypto's `HMAC` is generic, and its hashes allocate: a row's code takes three times as long with them.
///
/// It is unchecked because of the pointer: what it points to is written in `init` and read from then on.
final class KeyedCode: @unchecked Sendable {
    /// The hash behind the key's inner padding, and behind its outer one. Nothing changes them once they are made.
    private let begun: UnsafeMutablePointer<SHA256_CTX>

    /// - Parameter key: no longer than a block of the hash, as derived keys are.
    init(_ key: SymmetricKey) {
        precondition(key.bitCount <= SHA256.blockByteCount * 8)
        begun = .allocate(capacity: 2)
        begun.initialize(repeating: SHA256_CTX(), count: 2)
        for (hash, padding) in [(begun, 0x36 as UInt8), (begun + 1, 0x5C)] {
            withUnsafeTemporaryAllocation(byteCount: SHA256.blockByteCount, alignment: 1) { block in
                block.initializeMemory(as: UInt8.self, repeating: padding)
                key.withUnsafeBytes { for (place, octet) in $0.enumerated() { block[place] ^= octet } }
                SHA256_Init(hash)
                SHA256_Update(hash, block.baseAddress, block.count)
                OPENSSL_cleanse(block.baseAddress, block.count)
            }
        }
    }

    deinit {
        OPENSSL_cleanse(begun, 2 * MemoryLayout<SHA256_CTX>.stride)
        begun.deallocate()
    }

    func code(of octets: [UInt8]) -> [UInt8] { octets.withUnsafeBytes { withCode(of: $0) { Array($0) } } }

    func withCode<Result>(
        of octets: UnsafeRawBufferPointer, _ body: (UnsafeRawBufferPointer) throws -> Result
    ) rethrows -> Result {
        try withUnsafeTemporaryAllocation(byteCount: SHA256.byteCount, alignment: 8) { digest in
            withUnsafeTemporaryAllocation(of: SHA256_CTX.self, capacity: 1) { hash in
                hash.initialize(repeating: begun[0])
                SHA256_Update(hash.baseAddress, octets.baseAddress, octets.count)
                SHA256_Final(digest.baseAddress?.assumingMemoryBound(to: UInt8.self), hash.baseAddress)
                hash[0] = begun[1]
                SHA256_Update(hash.baseAddress, digest.baseAddress, digest.count)
                SHA256_Final(digest.baseAddress?.assumingMemoryBound(to: UInt8.self), hash.baseAddress)
                OPENSSL_cleanse(hash.baseAddress, MemoryLayout<SHA256_CTX>.size)
            }
            return try body(UnsafeRawBufferPointer(rebasing: digest.prefix(16)))
        }
    }
}
