import Foundation
import Logging

/// Writes request bodies, inflated, into a folder as `<schema-name>-<number>.json`.
actor BodyRecorder {
    private let directory: URL
    private let logger: Logger
    private var number = 0

    /// Creates the folder (0700) when absent and continues after the numbers in it.
    init(directory: String, logger: Logger) throws(SandboxError) {
        self.directory = URL(fileURLWithPath: directory, isDirectory: true)
        self.logger = logger
        do {
            try FileManager.default.createDirectory(
                at: self.directory, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
            let names = try FileManager.default.contentsOfDirectory(atPath: directory)
            number =
                names.compactMap { $0.split(separator: "-").last.flatMap { Int($0.prefix { $0.isNumber }) } }
                .max() ?? 0
        } catch {
            throw .cannotRecord(path: directory, reason: (error as NSError).localizedDescription)
        }
    }

    func record(_ octets: [UInt8], schema: String) {
        number += 1
        let digits = String(number)
        let padded = String(repeating: "0", count: max(0, 6 - digits.count)) + digits
        do {
            try Data(octets).write(to: directory.appendingPathComponent("\(schema)-\(padded).json"))
        } catch {
            logger.error("request body not recorded", metadata: ["error": "\(error)"])
        }
    }
}
