import Foundation
import HealthReadings

/// Files that are read whole. A FIFO or a device in their place may never end, or never begin.
package enum OrdinaryFile {
    /// What is in a file's place is no file.
    struct NotOrdinary: LocalizedError {
        var errorDescription: String? { "it is no ordinary file" }
    }

    /// The text of a file.
    package static func text(_ path: String) throws -> String {
        try check(path)
        return try String(contentsOfFile: path, encoding: .utf8)
    }

    /// What a file holds; nil where it is missing, cannot be read or is none.
    package static func contents(_ path: String) -> Data? {
        guard (try? check(path)) != nil else { return nil }
        return FileManager.default.contents(atPath: path)
    }

    private static func check(_ path: String) throws {
        if FileKind(at: path) == .special { throw NotOrdinary() }
    }
}
