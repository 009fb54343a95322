import Foundation
import HealthReadings
import Synchronization

/// Sees every request body before it is compressed, so that a tool which is neither client nor server can check it.
///
/// Bodies hold readings. A recorder is for tests and for a developer's own data.
public protocol RequestRecorder: Sendable {
    /// A body is about to be sent.
    ///
    /// - Parameters:
    ///   - body: the JSON before compression.
    ///   - route: with placeholders: `POST /v2/timeseries/{user_id}/glucose`.
    func record(_ body: [UInt8], of route: String)
}

/// Writes every request body into a folder, one file each, readable by the owner only.
///
/// A file is named after what its body is, its number and the process: `timeseries_glucose-00001_4711.json`.
public final class DirectoryRequestRecorder: RequestRecorder {
    /// The environment variable that names a folder in debug builds.
    public static let environmentVariable = "HEALTHRELAY_RECORD_BODIES"

    private let folder: String
    /// Numbers are the process's: several clients may write into one folder.
    private static let count = Mutex(0)

    /// Records into a folder, which is made where it is missing.
    public init(folder: String) throws {
        self.folder = folder
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    }

    /// The recorder that the environment asks for; always nil in a release build.
    public static func fromEnvironment() -> DirectoryRequestRecorder? {
        #if DEBUG
            guard let folder = ProcessInfo.processInfo.environment[environmentVariable], !folder.isEmpty else {
                return nil
            }
            return try? DirectoryRequestRecorder(folder: folder)
        #else
            return nil
        #endif
    }

    /// Writes one file; what cannot be written is left out.
    public func record(_ body: [UInt8], of route: String) {
        let number = Self.count.withLock { count in
            count += 1
            return count
        }
        let digits = String(number, digits: 5)
        let process = ProcessInfo.processInfo.processIdentifier
        let path = "\(folder)/\(Self.subject(of: route))-\(digits)_\(process).json"
        _ = FileManager.default.createFile(
            atPath: path, contents: Data(body), attributes: [.posixPermissions: NSNumber(value: 0o600)])
    }

    /// What a route's body is: `create_user`, `create_source`, `timeseries_glucose`, …
    private static func subject(of route: String) -> String {
        let steps = route.split { !$0.isLetter && !$0.isNumber && $0 != "_" }.dropFirst(2).map(String.init)
        switch steps.first {
        case "user" where steps.count == 1: return "create_user"
        case "link" where steps.dropFirst().first == "provider": return "create_source"
        case "link" where steps.dropFirst().first == "token": return "create_link_token"
        case "timeseries": return "timeseries_" + (steps.last ?? "")
        case "summary" where steps.count > 1: return "summary_" + steps[1]
        default: return steps.joined(separator: "_")
        }
    }
}
