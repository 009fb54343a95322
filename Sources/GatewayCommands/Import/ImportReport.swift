import GatewaySettings
import HealthReadings
import ReadingImport

/// What an import came to.
public struct ImportReport: Sendable {
    /// What came of one file.
    public struct File: Sendable {
        /// The file, as it was named.
        public var file: String
        /// How it is written; `nil` if nobody can tell.
        public var format: ImportFormat?
        /// What was counted while it was read.
        public var counts = ImportCounts()
        /// How many samples `--types`, `--from` and `--to` have left out.
        public var leftOut = 0
        /// How many readings are left out of figures now, because the file says so.
        public var leftOutOfFigures = 0
        /// How many samples are readings now, with those that are excluded.
        public var stored = 0
        /// How many were stored before.
        public var present = 0
        /// How many of these are another person's here than the file says.
        public var ofAnother = 0
        /// How many of those that are stored are never delivered, by the reason.
        public var excluded: [Exclusion: Int] = [:]
        /// How many rows can be no sample.
        public var refused = 0
        /// The first of these, ``mostRows`` at most.
        public var rows: [ImportRefusal] = []
        /// Why it was not read to its end; `nil` if it was.
        public var damage: ImportDamage?

        /// How many refused rows are named.
        public static let mostRows = 1000

        init(_ file: String) { self.file = file }

        mutating func refuse(_ refusal: ImportRefusal) {
            refused += 1
            if rows.count < Self.mostRows { rows.append(refusal) }
        }

        var document: JSONValue {
            .object([
                "file": .string(file), "format": .optional(format?.rawValue), "read": .integer(Int64(counts.read)),
                "joined": .integer(Int64(counts.joined)), "left_out": .integer(Int64(leftOut)),
                "stored": .integer(Int64(stored)), "present": .integer(Int64(present)),
                "present_of_another": .integer(Int64(ofAnother)),
                "left_out_of_figures": .integer(Int64(leftOutOfFigures)),
                "excluded": .object(
                    excluded.map { ($0.key.rawValue, $0.value) }.sorted { $0.0 < $1.0 }.map {
                        .init($0.0, .integer(Int64($0.1)))
                    }),
                "not_taken": .object(
                    counts.notTaken.sorted { $0.key < $1.key }.map { .init($0.key, .integer(Int64($0.value))) }),
                "refused": .object([
                    "count": .integer(Int64(refused)), "rows": .array(rows.map(\.document)),
                ]),
                "damage": damage?.document ?? .null,
            ])
        }

        /// Lines for people.
        var lines: [String] {
            func count(_ number: Int, _ noun: String) -> String { "\(number) \(noun)\(number == 1 ? "" : "s")" }
            var parts = [
                "\(file): \(count(counts.read, "record")) read, \(count(stored, "reading")) stored",
                "\(present) stored before",
            ]
            if leftOut > 0 { parts.append("\(leftOut) left out") }
            if refused > 0 { parts.append("\(refused) refused") }
            if ofAnother > 0 {
                parts[1] += " (\(ofAnother) of them another person's here: `healthrelay move` changes whose they are)"
            }
            let reasons = excluded.sorted { $0.key.rawValue < $1.key.rawValue }
            return [parts.joined(separator: ", ")]
                + (leftOutOfFigures > 0 ? ["  left out of figures, as the file says: \(leftOutOfFigures)"] : [])
                + reasons.map { "  stored, and never sent: \($0.value) \($0.key.words)" }
                + counts.notTaken.sorted { $0.key < $1.key }.map { "  not taken: \($0.value) \($0.key)" }
        }
    }

    /// Whether nothing was stored.
    public var isDry: Bool
    /// The client's id of the person whose the samples are.
    public var person: String
    /// What came of each file.
    public var files: [File] = []

    /// `{"dry_run", "person", "files"}`.
    public var document: JSONValue {
        .object([
            "dry_run": .bool(isDry), "person": .string(person), "files": .array(files.map(\.document)),
        ])
    }

    /// Lines for people.
    public var lines: [String] { files.flatMap(\.lines) }

    /// What the command ends with, though everything that can be stored is; `nil` if nothing is wrong.
    public var problem: Problem? {
        if let (file, damage) = files.lazy.compactMap({ file in file.damage.map { (file.file, $0) } }).first {
            return Problem(
                damage.fault.rawValue, damage.fault == .unreadable ? .noInput : .badData, "\(file): \(damage)",
                hint: damage.hint)
        }
        let refused = files.reduce(0) { $0 + $1.refused }
        guard refused > 0 else { return nil }
        return Problem(
            "import_rows_refused", .badData,
            "\(refused) row\(refused == 1 ? " was" : "s were") refused; everything else is stored",
            hint: "Each is named with its line and what was expected there.")
    }
}

extension ImportRefusal {
    /// `{"line", "field", "expected", "found"}`.
    var document: JSONValue {
        .object([
            "line": .integer(Int64(line)), "field": .string(field), "expected": .string(expected),
            "found": .string(found),
        ])
    }
}

extension ImportDamage {
    /// `{"code", "line", "expected", "found"}`.
    var document: JSONValue {
        .object([
            "code": .string(fault.rawValue), "line": .optional(line), "expected": .string(expected),
            "found": .string(found),
        ])
    }
}
