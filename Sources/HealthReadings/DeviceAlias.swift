/// What a device is called where neither its address nor its name may stand: `accuchek_guide-3f2a`.
///
/// The four digits follow from the address, or from the serial number of a device without one, and do not lead back to it.
/// `devices` shows them beside it.
package struct DeviceAlias: Sendable, Hashable, CustomStringConvertible {
    private let model: String?
    /// Four hexadecimal digits.
    package let digits: String

    package init(_ address: DeviceAddress, model: String?) {
        let octets = stride(from: 0, to: 48, by: 8).map { UInt8(truncatingIfNeeded: address.bits >> UInt64($0)) }
        self.init(octets, model: model)
    }

    /// The alias of a device; without its digits if it has neither an address nor a serial number.
    package init(_ device: DeviceDescription) {
        if let address = device.address {
            self.init(address, model: device.model)
        } else {
            self.init(Array((device.serial ?? "").utf8), model: device.model)
        }
    }

    private init(_ octets: [UInt8], model: String?) {
        self.model = model
        // FNV-1a, folded to 16 bits.
        let hash = octets.reduce(2_166_136_261 as UInt32) { ($0 ^ UInt32($1)) &* 16_777_619 }
        digits = octets.isEmpty ? "" : UInt16(truncatingIfNeeded: hash >> 16 ^ hash).hexadecimal()
    }

    package var description: String { (model ?? "device") + (digits.isEmpty ? "" : "-" + digits) }
}
