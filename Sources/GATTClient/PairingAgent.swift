/// Answers what a device asks for while it is paired (Core Specification, Vol 3, Part H, 2.3.5).
///
/// Throwing, or answering false, rejects the pairing. A task that waits here is cancelled when the pairing has ended.
public protocol PairingAgent: Sendable {
    /// The passkey the device shows: 0 … 999,999.
    func passkey(shownBy device: Advertisement) async throws -> UInt32

    /// The passkey to be typed at the device: 0 … 999,999, written with six digits. Called again with how many digits
    /// have been typed, where the device tells.
    func show(passkey: UInt32, typed: Int, at device: Advertisement) async

    /// Whether the device shows the same six digits (numeric comparison).
    func confirm(_ digits: UInt32, shownBy device: Advertisement) async throws -> Bool

    /// Whether a device that cannot show or ask anything may be paired (Just Works).
    func allowUnauthenticated(_ device: Advertisement) async throws -> Bool
}
