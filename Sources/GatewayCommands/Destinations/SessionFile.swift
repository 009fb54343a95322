import Foundation
import GatewaySettings
import HealthReadings
import VitalClient

/// Keeps a session's tokens in the state directory, in a file of mode 0600.
struct SessionFile: VitalSessionStorage {
    let directory: String
    /// The destination whose session it is.
    var destination = DestinationSetting.serverName

    private var path: String {
        directory + (destination == DestinationSetting.serverName ? "/session.json" : "/session-\(destination).json")
    }

    func load() throws -> VitalSessionRecord? {
        guard let data = OrdinaryFile.contents(path) else { return nil }
        // One that cannot be read is none: the sign-in token, or a person, begins another.
        return try? JSONDecoder().decode(VitalSessionRecord.self, from: data)
    }

    /// Written beside, synchronised and put in place: a power cut leaves the old one or the new one.
    func save(_ record: VitalSessionRecord) throws {
        let octets = try [UInt8](JSONEncoder().encode(record))
        let fresh = path + ".new"
        unlink(fresh)
        let file = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard file >= 0 else { throw Self.problem(fresh) }
        var isInPlace = false
        // On a full disk half a file would take the room that the next attempt needs.
        defer {
            close(file)
            if !isInPlace { unlink(fresh) }
        }
        var written = 0
        while written < octets.count {
            let count = octets[written...].withUnsafeBytes { write(file, $0.baseAddress, $0.count) }
            guard count > 0 else { throw Self.problem(fresh) }
            written += count
        }
        guard fsync(file) == 0, rename(fresh, path) == 0 else { throw Self.problem(path) }
        isInPlace = true
        _ = synchronizeDirectory(directory)
    }

    private static func problem(_ path: String) -> Problem {
        Problem(
            "store_io", .inputOutput, "cannot keep the session in \(path): \(String(cString: strerror(errno)))",
            hint: "without it somebody has to sign in again: free space, or check the directory's owner")
    }
}
