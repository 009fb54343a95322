import Foundation
import HealthReadings
import HomeOfDecade
import Synchronization

/// What a store commits, line by line, with tabs between fields:
///
/// - `contact`: a commit that stores when a contact began or ended.
/// - `growing OCTETS`: a commit of a frame that isn't whole.
/// - `reading KIND DEVICE SECOND A B C OCTETS`: a reading of the next commit. A value that it doesn't have is empty.
/// - `commit`: a commit of the readings since the last.
/// - `acknowledge DESTINATION COUNT`: a commit that notes the oldest as delivered.
/// - `days`: what comes now is measured.
final class Plan: Sendable {
    private let file: FileHandle
    private let text = Mutex("")

    init(path: String) throws {
        _ = FileManager.default.createFile(atPath: path, contents: nil)
        guard let file = FileHandle(forWritingAtPath: path) else { throw CocoaError(.fileNoSuchFile) }
        self.file = file
    }

    func note(_ committed: HomeStore.Committed) throws {
        switch committed {
        case .contact: try add("contact")
        case .growing(let frame): try add("growing\t\(Self.hexadecimal(frame.payload))")
        case .readings(let frames, let outcomes):
            // A scan makes many readings of one frame, and comes in no plan: its octets would stand with each of them.
            for (frame, outcome) in zip(frames, outcomes) {
                guard case .new(let reading) = outcome else { continue }
                let values = Self.values(reading.record.value)
                try add(
                    "reading\t\(reading.kind.rawValue)\t\(reading.device.address?.bits ?? 0)\t"
                        + "\(reading.time.instant?.seconds ?? 0)\t\(values.joined(separator: "\t"))\t"
                        + Self.hexadecimal(frame.payload))
            }
            try add("commit")
        }
    }

    func acknowledge(_ place: Place, _ count: Int) throws { try add("acknowledge\t\(place.rawValue)\t\(count)") }

    func beginDays() throws { try add("days") }

    func close() throws {
        try flush()
        try file.close()
    }

    private func add(_ line: String) throws {
        let isLong = text.withLock { text in
            text += line + "\n"
            return text.utf8.count > 1 << 20
        }
        if isLong { try flush() }
    }

    private func flush() throws {
        try text.withLock { text in
            try file.write(contentsOf: Data(text.utf8))
            text = ""
        }
    }

    private static func hexadecimal(_ octets: [UInt8]) -> String {
        let digits = Array("0123456789abcdef")
        return String(octets.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] })
    }

    /// Up to three numbers.
    private static func values(_ value: RecordValue) -> [String] {
        let quantities: [Quantity?] =
            switch value {
            case .glucose(let glucose): [glucose.concentration]
            case .bloodPressure(let pressure): [pressure.systolic, pressure.diastolic, pressure.pulse]
            case .vital(let vital): [vital.main]
            case .kept: []
            }
        return (0..<3).map { place in
            guard place < quantities.count, let number = quantities[place]?.number.number else { return "" }
            return number.description
        }
    }
}
