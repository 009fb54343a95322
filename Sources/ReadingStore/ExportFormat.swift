import CLibCrypto
import Crypto
import CryptoExtras
import Foundation
import HealthReadings

/// Why an export cannot be read.
public enum ExportError: Error, Sendable, Hashable {
    /// The file is not an export of this program; what was found at its beginning.
    case foreign(found: String)
    /// A later version of this program wrote it.
    case newer(version: Int)
    /// The file asks for more memory than any export of this program's: it is damaged, or made to do harm.
    case unreasonable
    /// The passphrase is another one, or the file's first octets are damaged: the two cannot be told apart.
    case wrongPassphrase
    /// The file is damaged from this octet on, or ends there.
    case damaged(octet: Int64)
    /// A passphrase with fewer than ``ExportFormat/leastPassphrase`` characters.
    case passphraseTooShort
    /// The state directory has readings already: an import would have to choose between the two.
    case storeNotEmpty(path: String)
}

/// The file that a store is exported to.
///
/// A line that names it; salt and cost of scrypt (RFC 7914) by which the passphrase becomes the key; then chunks of at
/// most 64 KiB, each sealed with AES-256-GCM under a nonce of its number and whether it is the last (the STREAM
/// construction of Hoang, Reyhanitabar, Rogaway and Vizár, as age uses it): none can be left out, moved or cut off
/// unnoticed. Everything before the chunks is bound to each of them.
public enum ExportFormat {
    /// The fewest characters a passphrase may have.
    public static let leastPassphrase = 8

    static let title = Array("HealthRelay export ".utf8)
    static let version = 1
    static let chunk = 64 * 1024
    static let tag = 16
    /// 2¹⁵ × 8 × 128 bytes: 32 MiB, three times, in about half a second. The OWASP Password Storage Cheat Sheet counts it as
    /// strong as (2¹⁷, 8, 1), which takes 128 MiB: too much beside everything else on a small box.
    static let cost = ScryptCost(roundsExponent: 15, blockSize: 8, parallelism: 3)

    struct ScryptCost: Equatable {
        var roundsExponent: UInt8
        var blockSize: UInt8
        var parallelism: UInt8

        /// At most 512 MiB, as a later version might want.
        var isReasonable: Bool {
            (10...19).contains(roundsExponent) && (1...8).contains(blockSize) && (1...4).contains(parallelism)
        }

        /// The system's scrypt: the one in swift-crypto takes ten times as long in a debug build.
        ///
        /// - Throws: `CryptoKitError` if the memory cannot be had.
        func key(_ passphrase: String, salt: [UInt8]) throws -> SymmetricKey {
            var secret = Array(passphrase.precomposedStringWithCanonicalMapping.utf8)
            var key = [UInt8](repeating: 0, count: 32)
            defer {
                OPENSSL_cleanse(&secret, secret.count)
                OPENSSL_cleanse(&key, key.count)
            }
            guard LibCrypto.isReady else { throw CryptoKitError.underlyingCoreCryptoError(error: 0) }
            let isDerived = secret.withUnsafeBytes { secret in
                EVP_PBE_scrypt(
                    secret.baseAddress?.assumingMemoryBound(to: CChar.self), secret.count, salt, salt.count,
                    1 << UInt64(roundsExponent), UInt64(blockSize), UInt64(parallelism), Self.mostMemory, &key,
                    key.count)
            }
            guard isDerived == 1 else { throw CryptoKitError.underlyingCoreCryptoError(error: 0) }
            return SymmetricKey(data: key)
        }

        /// Above what `isReasonable` lets through; libcrypto's own limit is below ``ExportFormat/cost``.
        private static let mostMemory: UInt64 = 1 << 30
    }

    /// Title, version, salt, cost.
    static let headerLength = title.count + 2 + 16 + 3

    fileprivate static func nonce(_ number: UInt64, isLast: Bool) throws -> AES.GCM.Nonce {
        var octets = [UInt8](repeating: 0, count: 12)
        for place in 0..<8 { octets[3 + place] = UInt8(truncatingIfNeeded: number >> UInt64(56 - 8 * place)) }
        octets[11] = isLast ? 1 : 0
        return try AES.GCM.Nonce(data: octets)
    }
}

/// Seals what is exported, chunk by chunk.
struct ExportSealer {
    let header: [UInt8]
    private let key: SymmetricKey
    private var number: UInt64 = 0
    private var waiting: [UInt8] = []

    init(passphrase: String, cost: ExportFormat.ScryptCost = ExportFormat.cost) throws {
        guard passphrase.count >= ExportFormat.leastPassphrase else { throw ExportError.passphraseTooShort }
        let salt = SymmetricKey(size: .bits128).withUnsafeBytes(Array.init)
        header =
            ExportFormat.title + [UInt8(ascii: "0") + UInt8(ExportFormat.version), UInt8(ascii: "\n")] + salt
            + [cost.roundsExponent, cost.blockSize, cost.parallelism]
        key = try cost.key(passphrase, salt: salt)
    }

    /// Takes octets and gives the chunks that are full.
    mutating func add(_ octets: some Collection<UInt8>) throws -> [UInt8] {
        waiting += octets
        var sealed: [UInt8] = []
        var start = 0
        // The last chunk is known when there is no more: one always waits.
        while waiting.count - start > ExportFormat.chunk {
            sealed += try seal(waiting[start..<(start + ExportFormat.chunk)], isLast: false)
            start += ExportFormat.chunk
        }
        waiting.removeFirst(start)
        return sealed
    }

    mutating func end() throws -> [UInt8] {
        defer { waiting = [] }
        return try seal(waiting[...], isLast: true)
    }

    private mutating func seal(_ octets: ArraySlice<UInt8>, isLast: Bool) throws -> [UInt8] {
        defer { number += 1 }
        let box = try AES.GCM.seal(
            octets, using: key, nonce: ExportFormat.nonce(number, isLast: isLast), authenticating: header)
        return Array(box.ciphertext) + Array(box.tag)
    }
}

/// Opens what was exported, chunk by chunk.
struct ExportOpener {
    private let header: [UInt8]
    private let key: SymmetricKey
    private var number: UInt64 = 0
    private var waiting: [UInt8] = []
    private var position: Int64

    /// - Parameter header: the first ``ExportFormat/headerLength`` octets of the file, or as many as it has.
    init(header: [UInt8], passphrase: String) throws {
        let title = ExportFormat.title
        guard header.starts(with: title), header.count >= title.count + 2,
            header[title.count + 1] == UInt8(ascii: "\n"),
            let version = Character(UnicodeScalar(header[title.count])).wholeNumberValue
        else {
            throw ExportError.foreign(found: header.prefix(16).hexadecimal())
        }
        guard version == ExportFormat.version else { throw ExportError.newer(version: version) }
        guard header.count == ExportFormat.headerLength else { throw ExportError.damaged(octet: Int64(header.count)) }
        let rest = header[(title.count + 2)...]
        let cost = ExportFormat.ScryptCost(
            roundsExponent: rest[rest.endIndex - 3], blockSize: rest[rest.endIndex - 2],
            parallelism: rest[rest.endIndex - 1])
        guard cost.isReasonable else { throw ExportError.unreasonable }
        self.header = header
        key = try cost.key(passphrase, salt: Array(rest.prefix(16)))
        position = Int64(header.count)
    }

    /// Takes octets of the file and gives what whole chunks of them hold.
    mutating func add(_ octets: some Collection<UInt8>) throws -> [UInt8] {
        waiting += octets
        var opened: [UInt8] = []
        var start = 0
        let length = ExportFormat.chunk + ExportFormat.tag
        while waiting.count - start > length {
            opened += try open(waiting[start..<(start + length)], isLast: false)
            start += length
        }
        waiting.removeFirst(start)
        return opened
    }

    /// Gives what the last chunk holds.
    mutating func end() throws -> [UInt8] {
        defer { waiting = [] }
        return try open(waiting[...], isLast: true)
    }

    private mutating func open(_ octets: ArraySlice<UInt8>, isLast: Bool) throws -> [UInt8] {
        do {
            let nonce = try ExportFormat.nonce(number, isLast: isLast)
            guard octets.count >= ExportFormat.tag else { throw ExportError.damaged(octet: position) }
            let box = try AES.GCM.SealedBox(
                nonce: nonce, ciphertext: octets.dropLast(ExportFormat.tag), tag: octets.suffix(ExportFormat.tag))
            let opened = try AES.GCM.open(box, using: key, authenticating: header)
            number += 1
            position += Int64(octets.count)
            return Array(opened)
        } catch {
            throw number == 0 && octets.count >= ExportFormat.tag && !hasManifest(octets)
                ? ExportError.wrongPassphrase : ExportError.damaged(octet: position)
        }
    }

    /// Whether the first chunk begins as every export does, under this key: then the passphrase is right, and what
    /// follows is damaged or cut off. Nothing that is opened so is used.
    private func hasManifest(_ octets: ArraySlice<UInt8>) -> Bool {
        let beginnings = [#"{"keys":["#, #"{"pruneKey":""#].map { Array($0.utf8) }
        return [true, false].contains { isLast in
            guard let nonce = try? ExportFormat.nonce(number, isLast: isLast),
                // GCM counts its blocks from 2 (NIST SP 800-38D, section 7.1).
                let counter = try? AES._CTR.Nonce(nonceBytes: Array(nonce) + [0, 0, 0, 2]),
                let opened = try? AES._CTR.decrypt(octets.prefix(16), using: key, nonce: counter)
            else { return false }
            return beginnings.contains { opened.starts(with: $0) }
        }
    }
}
