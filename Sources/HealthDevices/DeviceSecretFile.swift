import HealthReadings
import Synchronization

/// Keeps the secrets of devices in a file of mode 0600: one for each device, by its address.
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
///
/// The file is an object of JSON: each device's address and type with its secret in hexadecimal. One process uses it at a time.
public final class DeviceSecretFile: DeviceSecrets {
    /// Why the file can't be used.
    public enum Failure: Error, Sendable, Hashable {
        /// What is there can't be read, or is no file of secrets. It is never written over: that would lose the keys of all devices.
        case unreadable(path: String)
        /// A file or directory can't be written, with the system's reason. The secrets of before are kept.
        case notWritten(path: String, reason: String)
    }

    /// The file's name in its directory.
    public static let fileName = "device-keys.json"

    /// More than any gateway has devices.
    private static let mostDevices = 10_000
    /// The most octets that the file of so many has.
    private static let mostOctets = 1 << 22

    private let directory: String
    /// Held while the file is read and written: two devices may be paired at once.
    private let turn = Mutex(())

    /// Makes it; nothing is read or written yet.
    ///
    /// - Parameter directory: the directory of the file ``fileName``. It is made with mode 0700 when the first secret is kept, if it
    ///   doesn't exist.
    public init(directory: String) { self.directory = directory }

    private var path: String { directory + "/" + Self.fileName }

    /// The secret of the device with this identity address; `nil` if there is none.
    ///
    /// - Throws: ``Failure/unreadable(path:)``.
    public func secret(of device: DeviceAddress) async throws -> [UInt8]? {
        try turn.withLock { _ in try read()[Self.key(device)].flatMap { [UInt8](hexadecimal: $0) } }
    }

    /// Keeps a secret in the place of the one there was, durable when it returns; `nil` removes it.
    ///
    /// - Throws: ``Failure``.
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

    private func read() throws(Failure) -> [String: String] {
        let kind = FileKind(at: path)
        guard kind != .absent else { return [:] }
        guard kind == .regular, let octets = PrivateFile.read(path, upTo: Self.mostOctets),
            let members = (try? JSONReader.read(octets, mostMembers: Self.mostDevices))?.members
        else { throw Failure.unreadable(path: path) }
        var secrets: [String: String] = [:]
        for (device, node) in members {
            guard let secret = node.text else { throw Failure.unreadable(path: path) }
            secrets[device] = secret
        }
        return secrets
    }

    /// Written beside, synchronised and put in place: a power cut leaves the old one or the new one.
    private func write(_ secrets: [String: String]) throws(Failure) {
        let document = JSONValue.object(
            secrets.sorted { $0.key < $1.key }.map { .init($0.key, .string($0.value)) })
        do throws(PrivateFile.Failure) {
            try PrivateFile.write(Array(document.text.utf8), to: path)
        } catch {
            throw Failure.notWritten(path: error.path, reason: error.reason)
        }
    }
}

extension DeviceSecretFile.Failure: CustomStringConvertible {
    /// The published snake_case code.
    public var code: String { "store_io" }

    /// One line for people.
    public var description: String {
        switch self {
        case .unreadable(let path): "cannot read the keys of paired devices in \(path)"
        case .notWritten(let path, let reason): "cannot keep a device's key in \(path): \(reason)"
        }
    }

    /// What to do next.
    public var hint: String {
        switch self {
        case .unreadable: "check the file's owner and mode; without it the devices have to be paired again"
        case .notWritten: "without it the device has to be paired again: free space, or check the directory's owner"
        }
    }
}
