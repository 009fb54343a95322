import FleetDocuments
import Foundation
import HealthReadings
import TestSupport
import Testing

@Suite("Sealed batches")
struct SealTests {
    private static let centre = OpeningKey()

    @Test("a sealed batch shows its gateway and number, and opens with the centre's key alone")
    func sealing() throws {
        let batch = try Samples.batch()
        let sealed = try SealedBatch(batch, to: Self.centre.sealingKey)
        let octets = Samples.octets(sealed.document)
        let text = String(decoding: octets, as: UTF8.self)
        #expect(!text.contains("glucose") && !text.contains("white_bear"))
        guard case .sealed(let read) = try FleetUpload(octets, from: Samples.gateway()) else {
            Issue.record("a sealed batch was not recognised")
            return
        }
        #expect(read == sealed && read.number == 7)
        #expect(read.gateway == batch.gateway)
        #expect(try read.opened(with: Self.centre) == batch)
        let other = OpeningKey()
        #expect(
            throws: FleetDocumentError.otherKey(
                expected: other.sealingKey.fingerprint, found: Self.centre.sealingKey.fingerprint)
        ) { try read.opened(with: other) }
    }

    @Test("a key that is no fingerprint is refused, and nothing of it is told", arguments: [#"\u0000"#, "é", "g"])
    func oddKey(text: String) throws {
        let sealed = try SealedBatch(Samples.batch(), to: Self.centre.sealingKey)
        let key = Self.centre.sealingKey.fingerprint
        let document = String(decoding: Samples.octets(sealed.document), as: UTF8.self)
            .replacingOccurrences(of: key, with: text + key.dropFirst(text == "é" ? 2 : 1))
        let error = #expect(throws: FleetDocumentError.self) {
            try FleetUpload(Array(document.utf8), from: Samples.gateway())
        }
        #expect(error?.description.contains("16 hexadecimal digits") == true, "\(String(describing: error))")
    }

    @Test("two seals of one batch differ")
    func fresh() throws {
        let batch = try Samples.batch()
        #expect(
            try SealedBatch(batch, to: Self.centre.sealingKey) != SealedBatch(batch, to: Self.centre.sealingKey))
    }

    @Test(
        "a batch whose gateway or number was changed does not open",
        arguments: [(#""batch":7"#, #""batch":8"#), (#""gateway":"ward-7""#, #""gateway":"ward-8""#)])
    func moved(_ old: String, _ new: String) throws {
        let sealed = try SealedBatch(try Samples.batch(), to: Self.centre.sealingKey)
        let changed = try SealedBatch(Samples.octets(sealed.document, old, new))
        #expect(throws: FleetDocumentError.sealBroken) { try changed.opened(with: Self.centre) }
    }

    @Test("a batch that was changed anywhere does not open", arguments: 1...20 as ClosedRange<UInt64>)
    func damage(_ seed: UInt64) throws {
        var made = GeneratedDocuments(seed: seed)
        let sealed = try SealedBatch(try made.batch(), to: Self.centre.sealingKey)
        for _ in 0..<20 {
            guard case .sealed(let read)? = try? FleetUpload(made.damaged(Samples.octets(sealed.document))),
                read != sealed
            else { continue }
            #expect(throws: FleetDocumentError.self) { try read.opened(with: Self.centre) }
        }
    }

    @Test("the largest batch can be sealed and read, a larger one cannot")
    func sizes() throws {
        func batch(_ bytes: Int) throws -> FleetBatch {
            let padding = String(repeating: "x", count: bytes)
            let reading = Samples.reading()
            return FleetBatch(
                gateway: try Samples.gateway(), number: 7, sentAt: Samples.now,
                readings: [FleetReading(reading, revision: 7, person: padding)])
        }
        let frame = try batch(0).document.text.utf8.count
        let largest = try SealedBatch(batch(FleetBatch.mostBytes - frame), to: Self.centre.sealingKey)
        let octets = Samples.octets(largest.document)
        #expect(octets.count <= SealedBatch.mostBytes)
        #expect(try SealedBatch(octets) == largest)
        #expect(throws: FleetDocumentError.tooLarge(bytes: FleetBatch.mostBytes + 1, limit: FleetBatch.mostBytes)) {
            try SealedBatch(batch(FleetBatch.mostBytes - frame + 1), to: Self.centre.sealingKey)
        }
    }

    @Test("keys read back from PEM, also from what OpenSSL writes")
    func keys() throws {
        let key = OpeningKey()
        #expect(try OpeningKey(pem: key.pem).sealingKey == key.sealingKey)
        #expect(try SealingKey(pem: key.sealingKey.pem) == key.sealingKey)
        let written = try OpeningKey(
            pem: """
                -----BEGIN PRIVATE KEY-----
                MC4CAQAwBQYDK2VuBCIEIKhbKbKaCqCBrDlYk0hcPPkLHUnlsyjgNsqdWVo0LzZ2
                -----END PRIVATE KEY-----

                """)
        #expect(written.sealingKey.fingerprint.count == 16)
    }

    @Test(
        "a file that is no such key is named",
        arguments: [
            ("", "an empty file"), ("x", "no line with BEGIN"),
            (
                "-----BEGIN EC PRIVATE KEY-----\nAA==\n-----END EC PRIVATE KEY-----\n",
                "a file with a private key of another form"
            ),
            ("-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n", "another file"),
            ("-----BEGIN PUBLIC KEY-----\n?\n-----END PUBLIC KEY-----\n", "no base64"),
            ("-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA\n-----END PUBLIC KEY-----\n", "a key of another algorithm"),
        ])
    func badKeys(_ pem: String, _ found: String) {
        #expect(
            throws: FleetDocumentError.badKey(expected: "a PEM file with an X25519 public key", found: found)
        ) { try SealingKey(pem: pem) }
    }
}
