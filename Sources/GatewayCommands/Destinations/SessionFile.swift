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

    func save(_ record: VitalSessionRecord) throws {
        let octets = try [UInt8](JSONEncoder().encode(record))
        do throws(PrivateFile.Failure) {
            try PrivateFile.write(octets, to: path)
        } catch {
            throw Problem(
                "store_io", .inputOutput, "cannot keep the session in \(error.path): \(error.reason)",
                hint: "without it somebody has to sign in again: free space, or check the directory's owner")
        }
    }
}
