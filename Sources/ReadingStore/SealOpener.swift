import CLibCrypto
import Crypto
import Synchronization

/// Opens what was sealed under one key with AES-256-GCM (NIST SP 800-38D).
///
/// Crypto's `AES.GCM` expands the key for each call, which takes longer than a row's bytes. A context of libcrypto keeps
/// the expanded key, and wipes it when it is freed.
final class SealOpener: Sendable {
    /// The bytes in front of and behind the ciphertext: the nonce and the tag.
    static let (nonceCount, tagCount) = (12, 16)

    /// A context with the expanded key. It is unchecked because one caller at a time uses it: who takes it from ``idle``
    /// has it alone until it is put back.
    private final class Context: @unchecked Sendable {
        let handle: OpaquePointer

        init(_ key: SymmetricKey) throws {
            guard LibCrypto.isReady, let handle = EVP_CIPHER_CTX_new() else {
                throw StoreError.internalFault(detail: "libcrypto makes no context")
            }
            self.handle = handle
            let isKeyed = key.withUnsafeBytes {
                $0.count == 32
                    && EVP_DecryptInit_ex(
                        handle, EVP_aes_256_gcm(), nil, $0.bindMemory(to: UInt8.self).baseAddress, nil) == 1
            }
            guard isKeyed else { throw StoreError.internalFault(detail: "libcrypto does not take the key") }
        }

        deinit { EVP_CIPHER_CTX_free(handle) }
    }

    private let key: SymmetricKey
    /// Contexts that nobody uses now: as many as callers have been at work at the same time.
    private let idle = Mutex<[Context]>([])

    /// - Parameter key: 32 bytes.
    init(_ key: SymmetricKey) { self.key = key }

    /// The bytes that were sealed; `nil` if the seal does not hold.
    ///
    /// - Parameters:
    ///   - box: the nonce, the ciphertext and the tag.
    ///   - bound: what the seal is bound to.
    func open(_ box: UnsafeRawBufferPointer, authenticating bound: UnsafeRawBufferPointer) throws -> [UInt8]? {
        let count = box.count - Self.nonceCount - Self.tagCount
        guard count >= 0, let length = Int32(exactly: count), let boundLength = Int32(exactly: bound.count) else {
            return nil
        }
        let context = try idle.withLock { $0.popLast() } ?? Context(key)
        defer { idle.withLock { $0.append(context) } }
        let (octets, handle) = (box.bindMemory(to: UInt8.self), context.handle)
        var isGenuine = false
        let opened = [UInt8](unsafeUninitializedCapacity: count) { output, filled in
            var written: Int32 = 0
            let tag = UnsafeMutableRawPointer(mutating: box.baseAddress.map { $0 + Self.nonceCount + count })
            isGenuine =
                EVP_DecryptInit_ex(handle, nil, nil, nil, octets.baseAddress) == 1
                && (bound.isEmpty
                    || EVP_DecryptUpdate(
                        handle, nil, &written, bound.bindMemory(to: UInt8.self).baseAddress, boundLength) == 1)
                && (count == 0
                    || EVP_DecryptUpdate(
                        handle, output.baseAddress, &written, octets.baseAddress.map { $0 + Self.nonceCount }, length)
                        == 1)
                // libcrypto only reads the tag.
                && EVP_CIPHER_CTX_ctrl(handle, EVP_CTRL_AEAD_SET_TAG, Int32(Self.tagCount), tag) == 1
                // Writes nothing: the cipher is a stream.
                && withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 16) {
                    EVP_DecryptFinal_ex(handle, $0.baseAddress, &written) == 1
                }
            // What does not hold must not stay readable.
            if !isGenuine { OPENSSL_cleanse(output.baseAddress, count) }
            filled = isGenuine ? count : 0
        }
        return isGenuine ? opened : nil
    }
}
