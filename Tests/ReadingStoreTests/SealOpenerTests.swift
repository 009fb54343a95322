import CLibCrypto
import Crypto
import Foundation
import Testing

@testable import ReadingStore

@Suite("Opening seals")
struct SealOpenerTests {
    private static func octets(_ count: Int) -> [UInt8] { (0..<count).map { _ in .random(in: 0...255) } }

    private static func opened(
        _ box: [UInt8], bound: [UInt8], by opener: SealOpener
    ) throws -> [UInt8]? {
        try box.withUnsafeBytes { box in try bound.withUnsafeBytes { try opener.open(box, authenticating: $0) } }
    }

    #if os(Linux)
        @Test("a process that opens seals can exit while its threads use libcrypto")
        func exiting() async {
            await #expect(processExitsWith: .exitCode(7)) {
                _ = try SealOpenerTests.opened(
                    SealOpenerTests.octets(28), bound: [], by: SealOpener(SymmetricKey(size: .bits256)))
                // Called by libcrypto's own cleanup, first of all.
                guard OPENSSL_atexit({ _exit(1) }) == 1 else { exit(2) }
                exit(7)
            }
        }
    #endif

    @Test("opens what Crypto has sealed, of every length")
    func lengths() throws {
        let key = SymmetricKey(size: .bits256)
        let opener = SealOpener(key)
        for count in Array(0...65) + [255, 4096, 100_001] {
            for boundCount in [0, 1, 9, 16, 17, 169] {
                let (octets, bound) = (Self.octets(count), Self.octets(boundCount))
                let box = try AES.GCM.seal(octets, using: key, nonce: AES.GCM.Nonce(), authenticating: bound)
                let found = try Self.opened(Array(try #require(box.combined)), bound: bound, by: opener)
                #expect(found == octets, "\(count) bytes, bound to \(boundCount)")
            }
        }
    }

    @Test("opens nothing that differs in a bit, and what is right afterwards")
    func changes() throws {
        let key = SymmetricKey(size: .bits256)
        let opener = SealOpener(key)
        let (octets, bound) = (Self.octets(33), Self.octets(20))
        let sealed = try AES.GCM.seal(octets, using: key, nonce: AES.GCM.Nonce(), authenticating: bound)
        let box = Array(try #require(sealed.combined))
        for bit in 0..<(8 * box.count) {
            var changed = box
            changed[bit / 8] ^= 1 << UInt8(bit % 8)
            #expect(try Self.opened(changed, bound: bound, by: opener) == nil, "bit \(bit) of the box")
            #expect(try Self.opened(box, bound: bound, by: opener) == octets)
        }
        for bit in 0..<(8 * bound.count) {
            var changed = bound
            changed[bit / 8] ^= 1 << UInt8(bit % 8)
            #expect(try Self.opened(box, bound: changed, by: opener) == nil, "bit \(bit) of what it is bound to")
        }
        for count in 0..<box.count {
            #expect(try Self.opened(Array(box.prefix(count)), bound: bound, by: opener) == nil, "cut at \(count)")
        }
        #expect(try Self.opened(box, bound: bound, by: SealOpener(SymmetricKey(size: .bits256))) == nil)
    }

    @Test("opens for several callers at the same time")
    func callers() async throws {
        let key = SymmetricKey(size: .bits256)
        let opener = SealOpener(key)
        let sealed = try (0..<200).map { number in
            let octets = Self.octets(number)
            let box = try AES.GCM.seal(octets, using: key, nonce: AES.GCM.Nonce(), authenticating: [UInt8(number)])
            return (octets, Array(try #require(box.combined)))
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for caller in 0..<8 {
                group.addTask {
                    for index in sealed.indices {
                        let number = (index + 25 * caller) % sealed.count
                        let (octets, box) = sealed[number]
                        let found = try Self.opened(box, bound: [UInt8(number)], by: opener)
                        #expect(found == octets)
                        let other = try Self.opened(box, bound: [UInt8(number) ^ 1], by: opener)
                        #expect(other == nil)
                    }
                }
            }
            try await group.waitForAll()
        }
    }

    @Test("refuses a key that is no key of AES-256")
    func wrongKey() {
        let opener = SealOpener(SymmetricKey(size: .bits128))
        #expect(throws: StoreError.self) { try Self.opened(Self.octets(40), bound: [1], by: opener) }
    }
}
