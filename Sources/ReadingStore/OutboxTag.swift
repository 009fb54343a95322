import Crypto
import GRDB
import HealthReadings

/// What decides where a reading is delivered, authenticated under the key: whose it is at the server, as what, and when.
///
/// A tag is the number of its key (LEB128) and 16 octets of HMAC-SHA256. A row of a store in the clear has none.
struct OutboxTag {
    let reading: Int64
    /// The destination's name: rows of two destinations cannot change places, nor can the destinations.
    let destination: String
    let user: Int64
    let resource: Int64
    let provider: String
    let type: Int64
    var timestamp: Int64

    /// The tag for a new row; nil where content is in the clear.
    func made(_ sealing: Sealing) throws -> [UInt8]? {
        guard let keys = try sealing.currentKeys() else { return nil }
        var writer = ContentWriter()
        writer.put(keys.generation)
        return writer.octets + withOctets { octets in keys.tag.withCode(of: octets) { Array($0) } }
    }

    /// - Throws: ``StoreError/corrupt(detail:)`` where the row is not as it was written.
    func check(_ tag: UnsafeRawBufferPointer, _ sealing: Sealing) throws {
        guard let first = tag.first else {
            guard sealing.mayBeEarlier(.reading(reading)) else { throw changed }
            return
        }
        var (generation, start) = (UInt64(first), 1)
        if first >= 0x80 {
            var reader = ContentReader(Array(tag))
            (generation, start) = (try reader.number(), reader.position)
        }
        let keys = try sealing.keys(of: generation)
        let isRight = withOctets { octets in keys.tag.withCode(of: octets) { Self.isEqual($0, tag, from: start) } }
        guard keys.bindsColumns, isRight else { throw changed }
    }

    /// Whether a code is all of a tag behind its first octets. It takes the same time for every tag of the right length.
    private static func isEqual(
        _ code: UnsafeRawBufferPointer, _ tag: UnsafeRawBufferPointer, from start: Int
    ) -> Bool {
        guard code.count == 16, tag.count == start + 16 else { return false }
        func difference(_ place: Int) -> UInt64 {
            code.loadUnaligned(fromByteOffset: place, as: UInt64.self)
                ^ tag.loadUnaligned(fromByteOffset: start + place, as: UInt64.self)
        }
        return difference(0) | difference(8) == 0
    }

    private var changed: StoreError {
        .corrupt(detail: "where reading \(reading) is to be delivered was changed")
    }

    /// What is authenticated.
    private func withOctets<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        // Rows of earlier versions name no destination, and have a number here that is never negative.
        let named = destination == StoredDestination.first ? 0 : destination.utf8.count + 2
        let count = named + 5 * 8 + provider.utf8.count
        return withUnsafeTemporaryAllocation(byteCount: count, alignment: 8) { octets in
            var place = 0
            if named > 0 {
                octets[0] = 0xFF
                UnsafeMutableRawBufferPointer(rebasing: octets[1...]).copyBytes(from: destination.utf8)
                octets[named - 1] = 0
                place = named
            }
            for number in [reading, user, resource, type, timestamp] {
                octets.storeBytes(of: number.bigEndian, toByteOffset: place, as: Int64.self)
                place += 8
            }
            UnsafeMutableRawBufferPointer(rebasing: octets[place...]).copyBytes(from: provider.utf8)
            return body(UnsafeRawBufferPointer(octets))
        }
    }
}

extension OutboxTag {
    /// The columns of `outbox AS o` that make a tag, and the tag.
    static let columns = """
        o.reading, (SELECT name FROM destination WHERE key = o.destination), o.user, o.resource, o.provider, o.type, \
        o.timestamp, o.tag
        """
    /// How many there are.
    static let count: Int32 = 8

    init(_ row: PreparedStatement, from first: Int32 = 0) {
        reading = row.int(first)
        destination = row.text(first + 1) ?? ""
        user = row.int(first + 2)
        resource = row.int(first + 3)
        provider = row.text(first + 4) ?? ""
        type = row.int(first + 5)
        timestamp = row.int(first + 6)
    }

    /// Writes the tags of all of a reading's rows under the newest key.
    static func renewAll(_ db: Database, reading: Int64, _ sealing: Sealing) throws {
        let places = try Int64.fetchAll(
            db, sql: "SELECT destination FROM outbox WHERE reading = ?", arguments: [reading])
        for place in places { try renew(db, reading: reading, at: place, sealing) }
    }

    /// Whether the row is as it was written.
    func holds(_ row: PreparedStatement, from first: Int32 = 0, _ sealing: Sealing) -> Bool {
        (try? check(row, from: first, sealing)) != nil
    }

    /// - Throws: ``StoreError/corrupt(detail:)`` where the row is not as it was written.
    func check(_ row: PreparedStatement, from first: Int32 = 0, _ sealing: Sealing) throws {
        try row.withOctets(first + Self.count - 1) { try check($0, sealing) }
    }

    /// Changes a row and writes its tag under the newest key. A row whose tag does not hold keeps it, and so goes on
    /// being noticed.
    static func renew(
        _ db: Database, reading: Int64, at destination: Int64, _ sealing: Sealing,
        _ change: (inout OutboxTag) -> Void = { _ in }
    ) throws {
        let select = try PreparedStatement(
            db, "SELECT \(columns) FROM outbox AS o WHERE o.reading = ? AND o.destination = ?")
        select.bind(1, reading)
        select.bind(2, destination)
        guard try select.next() else { return }
        var (row, tag) = (OutboxTag(select), select.octets(OutboxTag.count - 1))
        let (holds, timestamp) = (row.holds(select, sealing), row.timestamp)
        select.reset()
        change(&row)
        if holds { tag = try row.made(sealing) ?? [] }
        // With the timestamp SQLite would write its places in the indexes anew, also where it is what it was.
        let isMoved = row.timestamp != timestamp
        let update = try PreparedStatement(
            db, "UPDATE outbox SET tag = ?3\(isMoved ? ", timestamp = ?4" : "") WHERE reading = ?1 AND destination = ?2"
        )
        update.bind(1, reading)
        update.bind(2, destination)
        update.bind(3, octets: tag.nonEmpty)
        if isMoved { update.bind(4, row.timestamp) }
        try update.run()
    }
}
