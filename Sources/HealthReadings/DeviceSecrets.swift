/// What devices were given to know this gateway by, beyond their bonds: an Omron monitor's key.
///
/// A secret of a device is chosen at pairing and shown to the device at each contact. Whoever has it, and a bond, can read
/// the device; it belongs in no log. `DeviceSecretFile` of `HealthDevices` keeps them in a file.
public protocol DeviceSecrets: Sendable {
    /// The secret of the device with this identity address; `nil` if there is none.
    func secret(of device: DeviceAddress) async throws -> [UInt8]?

    /// Keeps a secret in the place of the one there was, durable when it returns; `nil` removes it.
    func keep(_ secret: [UInt8]?, of device: DeviceAddress) async throws
}
