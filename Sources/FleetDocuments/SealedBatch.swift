import Crypto
import Foundation
import HealthReadings

/// A batch that only the centre can read: a ``FleetBatch`` under HPKE (RFC 9180), with the gateway and the batch's number in
/// the clear and authenticated.
///
/// The broker, and whoever reads its disks, sees which gateway sends how much and when, and nothing else. The suite is
/// DHKEM(X25519, HKDF-SHA256), HKDF-SHA256 and ChaCha20-Poly1305, in base mode: the seal keeps a batch secret, and the
/// connection's certificate says who sent it.
public struct SealedBatch: Sendable, Hashable {
    /// How many bytes a document may have: those of the largest batch in base64.
    public static let mostBytes = 1_000_000
    /// The name of the only suite.
    public static let suite = "x25519-sha256-chacha20poly1305"

    private static let info = Data("healthrelay fleet batch 1".utf8)
    private static let ciphersuite = HPKE.Ciphersuite.Curve25519_SHA256_ChachaPoly
    /// The octets of an encapsulated key, and of the tag behind the text.
    private static let (keyCount, tagCount) = (32, 16)

    /// The gateway.
    public let gateway: GatewayID
    /// The batch's number.
    public let number: Int64
    /// The ``SealingKey/fingerprint`` of the key that it is sealed to.
    public let key: String
    private let encapsulated: [UInt8]
    private let ciphertext: [UInt8]

    /// Seals a batch.
    ///
    /// - Throws: ``FleetDocumentError/tooLarge(bytes:limit:)``, or ``FleetDocumentError/badKey(expected:found:)`` for a key
    ///   that is no point of the curve's large group.
    public init(_ batch: FleetBatch, to key: SealingKey) throws(FleetDocumentError) {
        var octets: [UInt8] = []
        batch.document.write(into: &octets)
        guard octets.count <= FleetBatch.mostBytes else {
            throw .tooLarge(bytes: octets.count, limit: FleetBatch.mostBytes)
        }
        (gateway, number, self.key) = (batch.gateway, batch.number, key.fingerprint)
        do {
            var sender = try HPKE.Sender(recipientKey: key.key, ciphersuite: Self.ciphersuite, info: Self.info)
            ciphertext = [UInt8](
                try sender.seal(octets, authenticating: Self.authenticated(batch.gateway, batch.number)))
            encapsulated = [UInt8](sender.encapsulatedKey)
        } catch {
            throw .badKey(expected: "an X25519 public key", found: "one that nothing can be sealed to")
        }
    }

    /// Opens the batch.
    ///
    /// - Throws: ``FleetDocumentError/otherKey(expected:found:)``, ``FleetDocumentError/sealBroken``, or what
    ///   ``FleetBatch/init(_:from:)`` throws.
    public func opened(with key: OpeningKey) throws(FleetDocumentError) -> FleetBatch {
        let fingerprint = key.sealingKey.fingerprint
        guard fingerprint == self.key else { throw .otherKey(expected: fingerprint, found: self.key) }
        let octets: Data
        do {
            var recipient = try HPKE.Recipient(
                privateKey: key.key, ciphersuite: Self.ciphersuite, info: Self.info,
                encapsulatedKey: Data(encapsulated))
            octets = try recipient.open(Data(ciphertext), authenticating: Self.authenticated(gateway, number))
        } catch {
            throw .sealBroken
        }
        let batch = try FleetBatch([UInt8](octets), from: gateway)
        guard batch.number == number else {
            throw .unexpected(at: "batch", expected: "the number of the sealed batch", found: "another number")
        }
        return batch
    }

    private static func authenticated(_ gateway: GatewayID, _ number: Int64) -> Data {
        Data("\(FleetTopic.root)/\(gateway)/\(number)".utf8)
    }

    /// The document.
    public var document: JSONValue {
        .schema([
            .init("gateway", .string(gateway.description)), .init("batch", .integer(number)),
            .init(
                "sealed",
                .object([
                    "suite": .string(Self.suite), "key": .string(key),
                    "encapsulated": .string(Data(encapsulated).base64EncodedString()),
                    "ciphertext": .string(Data(ciphertext).base64EncodedString()),
                ])),
        ])
    }

    /// Reads a document.
    ///
    /// - Parameters:
    ///   - octets: all of the document.
    ///   - gateway: the gateway that its topic names; `nil` if it came without one.
    /// - Throws: ``FleetDocumentError``
    public init(_ octets: [UInt8], from gateway: GatewayID? = nil) throws(FleetDocumentError) {
        try self.init(try DocumentPart.document(octets, limit: Self.mostBytes), gateway)
    }

    init(_ part: DocumentPart, _ expected: GatewayID?) throws(FleetDocumentError) {
        gateway = try part["gateway"].gateway(expected)
        number = try part["batch"].whole(FleetSchema.numbers)
        let sealed = part["sealed"]
        guard sealed.members != nil else { throw sealed.unexpected("an object with suite, key and ciphertext") }
        guard try sealed["suite"].text(1...64) == Self.suite else {
            throw sealed["suite"].unexpected(Self.suite)
        }
        // It is told of where the centre has another key: nothing else may come in its place.
        key = try sealed["key"].hexadecimalDigits(16)
        encapsulated = try sealed["encapsulated"].base64(Self.keyCount...Self.keyCount)
        ciphertext = try sealed["ciphertext"].base64(Self.tagCount...FleetBatch.mostBytes + Self.tagCount)
    }
}

/// What may stand on `healthrelay/<gateway>/readings`.
public enum FleetUpload: Sendable, Hashable {
    /// A batch in the clear.
    case plain(FleetBatch)
    /// A batch that only the centre's key opens.
    case sealed(SealedBatch)

    /// Reads a document.
    ///
    /// - Parameters:
    ///   - octets: all of the document.
    ///   - gateway: the gateway that its topic names; `nil` if it came without one.
    /// - Throws: ``FleetDocumentError``
    public init(_ octets: [UInt8], from gateway: GatewayID? = nil) throws(FleetDocumentError) {
        let part = try DocumentPart.document(octets, limit: SealedBatch.mostBytes)
        guard part["sealed"].isNull else {
            self = .sealed(try SealedBatch(part, gateway))
            return
        }
        guard octets.count <= FleetBatch.mostBytes else {
            throw .tooLarge(bytes: octets.count, limit: FleetBatch.mostBytes)
        }
        self = .plain(try FleetBatch(part, octets, gateway))
    }

    /// The number of the batch that a document is about, if that much of it can be read: for the receipt of a batch that
    /// cannot be.
    public static func number(of octets: [UInt8]) -> Int64? {
        guard let part = try? DocumentPart.document(octets, limit: SealedBatch.mostBytes, hasSchema: false) else {
            return nil
        }
        return try? part["batch"].whole(FleetSchema.numbers)
    }

    /// The gateway.
    public var gateway: GatewayID {
        switch self {
        case .plain(let batch): batch.gateway
        case .sealed(let batch): batch.gateway
        }
    }

    /// The batch's number.
    public var number: Int64 {
        switch self {
        case .plain(let batch): batch.number
        case .sealed(let batch): batch.number
        }
    }
}

extension DocumentPart {
    fileprivate func base64(_ range: ClosedRange<Int>) throws(FleetDocumentError) -> [UInt8] {
        guard let text = string, let data = Data(base64Encoded: text), range.contains(data.count) else {
            throw unexpected("base64 of \(range.lowerBound) to \(range.upperBound) bytes")
        }
        return [UInt8](data)
    }
}
