import Foundation
import GatewaySettings
import HealthReadings
import Synchronization

/// Keeps the secrets of devices in the state directory, in a file of mode 0600: one for each device, by its address.
///
/// A secret opens nothing without the bond, which the system keeps. It is no person's, so that it stays when a person is
/// erased; it goes when the bond with its device is removed. A device whose secret is gone has to be paired again.
///
/// ```swift
/// let manager = DevicesManager(
///     radio: radio, journal: store, memory: store, pairings: store,
///     secrets: DeviceSecretFile(directory: "/var/lib/example"))
/// print(manager.brands)
/// ```
public final class DeviceSecretFile: DeviceSecrets {
    static let name = "device-keys.json"
    private let directory: String
    /// Held while the file is read and written: two devices may be paired at once.
    private let turn = Mutex(())

    /// Makes it; nothing is read or written yet.
    ///
    /// - Parameter directory: the directory of the file `device-keys.json`. It has to exist.
    public init(directory: String) { self.directory = directory }

    private var path: String { directory + "/" + Self.name }

    /// The secret of the device with this identity address; `nil` if there is none.
    ///
    /// - Throws: `Problem` for a file that is there and cannot be read.
    public func secret(of device: DeviceAddress) async throws -> [UInt8]? {
        try turn.withLock { _ in try read()[Self.key(device)].flatMap { try? Hexadecimal.octets($0) } }
    }

    /// Keeps a secret in the place of the one there was, durable when it returns; `nil` removes it.
    ///
    /// - Throws: `Problem` for a file that cannot be read or written; the former secrets are kept then.
    public func keep(_ secret: [UInt8]?, of device: DeviceAddress) async throws {
        try turn.withLock { _ in
            var secrets = try read()
            let former = secrets[Self.key(device)]
            secrets[Self.key(device)] = secret?.hexadecimal()
            guard secrets[Self.key(device)] != former else { return }
            try write(secrets)
        }
    }

    private static func key(_ device: DeviceAddress) -> String {
        "\(device) \(device.kind == .public ? "public" : "random")"
    }

    /// - Throws: `Problem` for a file that is there and cannot be read: to begin another would lose the keys of all devices.
    private func read() throws -> [String: String] {
        guard FileManager.default.fileExists(atPath: path) else { return [:] }
        guard let data = OrdinaryFile.contents(path), !data.isEmpty,
            let secrets = try? JSONDecoder().decode([String: String].self, from: data)
        else {
            throw Problem(
                "store_io", .inputOutput, "cannot read the keys of paired devices in \(path)",
                hint: "check the file's owner and mode; without it the devices have to be paired again")
        }
        return secrets
    }

    /// Written beside, synchronised and put in place: a power cut leaves the old one or the new one.
    private func write(_ secrets: [String: String]) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        let octets = try [UInt8](encoder.encode(secrets))
        let fresh = path + ".new"
        unlink(fresh)
        let file = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard file >= 0 else { throw Self.problem(fresh) }
        var isInPlace = false
        defer {
            close(file)
            if !isInPlace { unlink(fresh) }
        }
        var written = 0
        while written < octets.count {
            let count = octets[written...].withUnsafeBytes { Foundation.write(file, $0.baseAddress, $0.count) }
            guard count > 0 else { throw Self.problem(fresh) }
            written += count
        }
        guard fsync(file) == 0, rename(fresh, path) == 0 else { throw Self.problem(path) }
        isInPlace = true
        _ = synchronizeDirectory(directory)
    }

    private static func problem(_ path: String) -> Problem {
        Problem(
            "store_io", .inputOutput, "cannot keep a device's key in \(path): \(String(cString: strerror(errno)))",
            hint: "without it the device has to be paired again: free space, or check the directory's owner")
    }
}
