import Foundation
import GRDB
import HealthReadings

/// Labels of devices that were opened lately: a device that is met is looked for among all of its model. They are forgotten
/// after a minute, when readings are erased and when keys change.
struct OpenedLabels: Sendable {
    private static let most = 4096

    private var labels: [Int64: (blob: [UInt8], label: DeviceLabel)] = [:]

    var isEmpty: Bool { labels.isEmpty }

    /// The label, if the blob is as it was: what its seal held for then, it holds for now.
    func label(of device: Int64, _ blob: UnsafeRawBufferPointer) -> DeviceLabel? {
        guard let known = labels[device], blob.elementsEqual(known.blob) else { return nil }
        return known.label
    }

    /// - Returns: whether it is the first one.
    mutating func keep(_ label: DeviceLabel, of device: Int64, _ blob: UnsafeRawBufferPointer) -> Bool {
        let isFirst = labels.isEmpty
        if labels.count == Self.most { labels = [:] }
        labels[device] = (Array(blob), label)
        return isFirst
    }
}

/// What tells one device from others of its model, and so whose it is: sealed with the rest of the content.
struct DeviceLabel: Equatable {
    var serial: String?
    var name: String?

    init(serial: String? = nil, name: String? = nil) {
        self.serial = serial
        self.name = name
    }

    init(octets: [UInt8]) throws {
        var reader = ContentReader(octets)
        serial = try reader.text()
        name = try reader.text()
        guard reader.isAtEnd else { throw StoreError.corrupt(detail: "a device's label goes on behind its name") }
    }

    var octets: [UInt8] {
        var writer = ContentWriter()
        writer.put(serial)
        writer.put(name)
        return writer.octets
    }

    /// Gathers what were columns into the blob, in the clear; where content is sealed, rows in the clear are sealed
    /// with the newest key afterwards.
    static func migrate(_ db: Database) throws {
        try db.execute(sql: "DROP INDEX device_serial; ALTER TABLE device ADD COLUMN label BLOB")
        let rows = try Row.fetchAll(
            db, sql: "SELECT key, serial, name FROM device WHERE serial IS NOT NULL OR name IS NOT NULL")
        for row in rows {
            let label = DeviceLabel(serial: try row.value(1), name: try row.value(2))
            try db.execute(
                sql: "UPDATE device SET label = ? WHERE key = ?",
                arguments: [Data([0] + label.octets), try row.value(0) as Int64])
        }
        try db.execute(sql: "ALTER TABLE device DROP COLUMN serial; ALTER TABLE device DROP COLUMN name")
        try KeyList.noteRowsInTheClear(db)
    }
}
