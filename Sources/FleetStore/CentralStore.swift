import Crypto
import HealthReadings

/// Where the readings of a fleet are kept: the seam between what receives batches and what keeps them.
///
/// A reading belongs to the gateway that sent it. Its key is the gateway with the reading's id, so no gateway can replace
/// another's. Every call that changes something returns after its commit is durable.
package protocol CentralStore: Sendable {
    /// Makes the tables where they are missing and brings older ones up to date.
    ///
    /// - Throws: ``CentralStoreError/newerSchema(found:known:)`` for tables of a later program, which stay as they are.
    func prepare() async throws(CentralStoreError)

    /// Keeps batches in one transaction: all of them, or none.
    ///
    /// A reading that is there already changes nothing, a later revision replaces an earlier one, and an earlier one
    /// that comes late changes nothing either. A retraction is a revision that empties the body; its row stays. The outcome
    /// names the readings of which something else is kept, under a revision that is not lower.
    ///
    /// - Returns: what became of each batch, in the same order.
    /// - Throws: ``CentralStoreError``. After ``CentralStoreError/badValue(_:)`` none of the batches is kept.
    func keep(_ batches: [ArrivedBatch]) async throws(CentralStoreError) -> [BatchOutcome]

    /// Notes what a gateway says about itself, and that it was heard of.
    ///
    /// - Returns: the status that the gateway had sent before; `nil` if there was none.
    @discardableResult
    func note(_ sighting: GatewaySighting) async throws(CentralStoreError) -> String?

    /// Keeps a document that can't be taken with the reason, so that nothing is lost. One that is there already changes nothing.
    ///
    /// So much is kept of one gateway (``AsideDocument/mostOfGateway``): a broken one must not fill the disk that everybody's
    /// readings need. What comes beyond that is counted in a row of the gateway's, with the reason ``AsideDocument/full``.
    ///
    /// - Returns: whether the document is kept.
    @discardableResult
    func putAside(_ document: AsideDocument) async throws(CentralStoreError) -> Bool

    /// The documents that were put aside, the newest first.
    func aside(limit: Int) async throws(CentralStoreError) -> [AsideDocument]

    /// Every gateway that was ever heard of, or has a token, by name.
    ///
    /// - Parameter hasStatuses: whether their status documents are read, of which each may have some kilobytes.
    func gateways(hasStatuses: Bool) async throws(CentralStoreError) -> [GatewayRecord]

    /// The readings that came last.
    ///
    /// - Parameter gateway: whose; `nil`: everyone's.
    func newest(of gateway: String?, limit: Int) async throws(CentralStoreError) -> [CentralReading]

    /// The highest number that the store has from a gateway, as ``BatchOutcome/highest``; `nil`: there is none.
    func highestBatch(of gateway: String) async throws(CentralStoreError) -> Int64?

    /// The ids of readings whose newest revision came in one of these batches, by batch.
    func storedIDs(of gateway: String, batches: [Int64]) async throws(CentralStoreError) -> [Int64: [String]]

    /// Keeps the settings that a gateway shall have, in place of those that it should have until now.
    ///
    /// - Parameters:
    ///   - settings: JSON with a setting's key and value each.
    ///   - gateway: whose; `nil`: every gateway's, until one gets settings of its own later.
    /// - Returns: the version, which is higher than all before: milliseconds since 1970, or one more than the last. So it
    ///   grows also if the database was lost or put back from a backup.
    func setConfiguration(
        _ settings: String, of gateway: String?, at instant: Instant
    ) async throws(CentralStoreError) -> Int64

    /// The settings that a gateway shall have; `nil`: nobody has said.
    func configuration(of gateway: String) async throws(CentralStoreError) -> DesiredConfiguration?

    /// Lets the bearer of a token act for a gateway.
    ///
    /// - Parameter digest: the token's SHA-256 in hexadecimal; the token itself is never kept.
    func add(tokenDigest digest: String, for gateway: String, at instant: Instant) async throws(CentralStoreError)

    /// The gateway that a token's bearer acts for; `nil`: the token isn't known.
    func gateway(ofTokenDigest digest: String) async throws(CentralStoreError) -> String?

    /// Withdraws every token of a gateway.
    ///
    /// - Returns: how many there were.
    func removeTokens(of gateway: String) async throws(CentralStoreError) -> Int

    /// Writes something that changes nothing, where readings are: a store that can be read may still take none.
    func checkIsWritable() async throws(CentralStoreError)

    /// Ends the store's connections.
    func close() async
}

extension CentralStore {
    /// Every gateway that was ever heard of, or has a token, by name, with its status document.
    package func gateways() async throws(CentralStoreError) -> [GatewayRecord] {
        try await gateways(hasStatuses: true)
    }
}

/// A reading as the centre keeps it.
package struct CentralReading: Sendable, Hashable {
    /// The gateway that sent it.
    package var gateway: String
    /// The reading's id, which is the gateway's own.
    package var id: String
    /// Counts what was sent of this reading; a later revision replaces an earlier one.
    package var revision: Int64
    /// The batch that the revision came in.
    package var batch: Int64
    /// When it was measured; `nil`: unknown.
    package var taken: Instant?
    /// What was measured, for example `glucose`; `nil`: a retraction, which leaves in place what was said before.
    package var kind: String?
    /// Whose reading it is, as the gateway calls the person.
    package var person: String?
    /// The reading's JSON document; `nil`: it was retracted.
    package var body: String?

    /// Makes a reading.
    package init(
        gateway: String, id: String, revision: Int64, batch: Int64, taken: Instant?, kind: String?, person: String?,
        body: String?
    ) {
        self.gateway = gateway
        self.id = id
        self.revision = revision
        self.batch = batch
        self.taken = taken
        self.kind = kind
        self.person = person
        self.body = body
    }

    /// Whether the gateway took the reading back.
    package var isRetracted: Bool { body == nil }

    /// Whether a body that is kept says what this reading says; the revision in it does not matter.
    func saysTheSame(as kept: String?) -> Bool {
        guard let body, let kept else { return body == nil && kept == nil }
        if body == kept { return true }
        guard let parts = Self.parts(of: body) else { return false }
        return parts == Self.parts(of: kept)
    }

    private static func parts(of body: String) -> [String]? {
        let octets = Array(body.utf8)
        return (try? JSONReader.read(octets))?.members?.filter { $0.key != "revision" }.map {
            "\($0.key) " + String(decoding: octets[$0.node.range], as: UTF8.self)
        }
    }
}

/// A batch whose sender is known.
package struct ArrivedBatch: Sendable, Hashable {
    /// The gateway that sent it, as its certificate, its token or the queue's routing key proves.
    package var gateway: String
    /// The gateway's number of the batch.
    package var number: Int64
    /// When it came.
    package var received: Instant
    /// What it holds; every reading is the same gateway's.
    package var readings: [CentralReading]

    /// Makes a batch.
    package init(gateway: String, number: Int64, received: Instant, readings: [CentralReading]) {
        self.gateway = gateway
        self.number = number
        self.received = received
        self.readings = readings
    }
}

/// What became of a batch's readings.
package struct BatchOutcome: Sendable, Hashable {
    /// Readings that are new.
    package var stored = 0
    /// Readings that replaced an earlier revision.
    package var revised = 0
    /// Readings that changed nothing: they were there already, or ``ignored`` names them.
    package var repeated = 0
    /// The ids of readings of which the store keeps something else, under the same or a higher revision.
    package var ignored: [String] = []
    /// The highest number of a batch or a revision that the gateway has to exceed so that its next batch counts; `nil`: that
    /// of the batch itself.
    package var highest: Int64?

    /// Makes an outcome.
    package init(
        stored: Int = 0, revised: Int = 0, repeated: Int = 0, ignored: [String] = [], highest: Int64? = nil
    ) {
        self.stored = stored
        self.revised = revised
        self.repeated = repeated
        self.ignored = ignored
        self.highest = highest
    }

    /// Notes that a reading was ignored because of a revision that is kept.
    mutating func ignore(_ id: String, for revision: Int64) {
        ignored.append(id)
        highest = max(highest ?? 0, revision)
    }

    /// Notes the highest number of the gateway's batches.
    mutating func note(highestBatch: Int64?, of number: Int64) {
        guard let highestBatch, highestBatch > number || !ignored.isEmpty else { return }
        highest = max(highest ?? 0, highestBatch)
    }
}

/// The settings that a gateway shall have.
package struct DesiredConfiguration: Sendable, Hashable {
    package var version: Int64
    /// JSON with a setting's key and value each.
    package var settings: String

    /// The name that the settings of every gateway are kept under; it is no gateway's.
    static let everyGateway = "*"

    package init(version: Int64, settings: String) {
        self.version = version
        self.settings = settings
    }
}

/// What a gateway says about itself.
package struct GatewaySighting: Sendable, Hashable {
    package var gateway: String
    /// When the centre heard it.
    package var heard: Instant
    /// The gateway's version.
    package var version: String?
    /// How many readings wait in its outbox.
    package var backlog: Int64?
    /// Since when the oldest of them waits.
    package var oldest: Instant?
    /// Its whole status document as JSON.
    package var status: String?
    /// What it did with the settings that it should have, as JSON.
    package var configuration: String?

    /// By how many seconds one collector's clock may be ahead of another's, and a gateway still was heard when the later of
    /// them says. A time that is further ahead was noted under a wrong clock, and the next one takes its place.
    package static let clockSlack: Int64 = 300

    /// Makes a sighting; what is `nil` leaves in place what was said before.
    package init(
        gateway: String, heard: Instant, version: String? = nil, backlog: Int64? = nil, oldest: Instant? = nil,
        status: String? = nil, configuration: String? = nil
    ) {
        self.gateway = gateway
        self.heard = heard
        self.version = version
        self.backlog = backlog
        self.oldest = oldest
        self.status = status
        self.configuration = configuration
    }
}

/// What the centre knows of a gateway.
package struct GatewayRecord: Sendable, Hashable {
    package var gateway: String
    /// When it was last heard of; `nil`: never.
    package var heard: Instant?
    package var version: String?
    /// How many readings waited in its outbox when it last said so.
    package var backlog: Int64?
    /// Since when the oldest of them waited.
    package var oldest: Instant?
    /// How many readings of it are kept.
    package var stored: Int64
    /// The highest number of its batches.
    package var highestBatch: Int64?
    /// Its last status document as JSON.
    package var status: String?
    /// What it last said of the settings that it should have, as JSON.
    package var configuration: String?
    /// The version of the settings that it shall have.
    package var wantedVersion: Int64?

    /// Makes a record.
    package init(
        gateway: String, heard: Instant? = nil, version: String? = nil, backlog: Int64? = nil, oldest: Instant? = nil,
        stored: Int64 = 0, highestBatch: Int64? = nil, status: String? = nil, configuration: String? = nil,
        wantedVersion: Int64? = nil
    ) {
        self.gateway = gateway
        self.heard = heard
        self.version = version
        self.backlog = backlog
        self.oldest = oldest
        self.stored = stored
        self.highestBatch = highestBatch
        self.status = status
        self.configuration = configuration
        self.wantedVersion = wantedVersion
    }
}

/// A document that couldn't be taken.
package struct AsideDocument: Sendable, Hashable {
    /// When it came.
    package var received: Instant
    /// The sender, as the certificate, the token or the routing key says.
    package var gateway: String
    /// Why it couldn't be taken: a published code such as `other_gateway`.
    package var reason: String
    /// The reason in one line, without any value of a reading.
    package var words: String
    /// The document as it came, or the beginning of one that is larger than any that can be taken.
    package var octets: [UInt8]
    /// How many bytes the whole document has.
    package var bytes: Int
    /// The whole document's SHA-256 in hexadecimal; empty in the row that counts what wasn't kept.
    package var digest: String

    /// How many bytes a document may have so that all of it is kept, and how many are kept of a larger one.
    package static let (mostBytes, beginning) = (1_000_000, 65_536)
    /// How many documents of one gateway are kept, and how many bytes of them together.
    package static let (mostOfGateway, mostBytesOfGateway) = (1000, 4_000_000)
    /// The reason of the row that counts a gateway's documents that weren't kept, and what that row has in place of a digest.
    package static let (full, fullMark) = ("aside_full", "")

    /// Whether there is room for the document.
    ///
    /// - Parameters:
    ///   - count: how many documents are kept of its gateway.
    ///   - bytes: how many bytes of those are kept.
    func fits(beside count: Int, bytes: Int) -> Bool {
        count < Self.mostOfGateway && bytes + octets.count <= Self.mostBytesOfGateway
    }

    /// Makes a document.
    ///
    /// - Parameter octets: all of it.
    package init(received: Instant, gateway: String, reason: String, words: String, octets: [UInt8]) {
        self.init(
            received: received, gateway: gateway, reason: reason, words: words,
            octets: octets.count > Self.mostBytes ? Array(octets.prefix(Self.beginning)) : octets,
            bytes: octets.count, digest: SHA256.hash(data: octets).hexadecimal())
    }

    /// Makes a document as a store has it; it has neither length nor digest of those that it got before it knew them.
    init(
        received: Instant, gateway: String, reason: String, words: String, octets: [UInt8], bytes: Int?, digest: String?
    ) {
        self.received = received
        self.gateway = gateway
        self.reason = reason
        self.words = words
        self.octets = octets
        self.bytes = bytes ?? octets.count
        self.digest = digest ?? SHA256.hash(data: octets).hexadecimal()
    }
}
