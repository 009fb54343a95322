import HealthReadings

/// What a device is called where neither its address nor its name may stand: `accuchek_guide-3f2a`.
///
/// The four digits follow from the address and do not lead back to it. `devices` shows them beside it.
package struct DeviceAlias: Sendable, Hashable, CustomStringConvertible {
    private let model: String?
    /// Four hexadecimal digits.
    package let digits: String

    package init(_ address: DeviceAddress, model: String?) {
        self.model = model
        // FNV-1a over the address, folded to 16 bits.
        var hash: UInt32 = 2_166_136_261
        for shift in stride(from: 0, to: 48, by: 8) {
            hash = (hash ^ UInt32(truncatingIfNeeded: address.bits >> UInt64(shift) & 0xFF)) &* 16_777_619
        }
        digits = UInt16(truncatingIfNeeded: hash >> 16 ^ hash).hexadecimal()
    }

    package var description: String { "\(model ?? "device")-\(digits)" }
}
