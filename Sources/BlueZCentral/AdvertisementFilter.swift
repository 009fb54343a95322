import GATTClient

/// Passes on what is new: a device when it is first heard, and when its name, its services, its bond or its address has
/// changed, or its signal by 6 dB or more.
struct AdvertisementFilter {
    static let step = 6

    /// By object path; what the daemon forgets is forgotten here, too.
    private var told: [String: Advertisement] = [:]

    /// Whether to pass it on.
    mutating func isNews(_ advertisement: Advertisement, of path: String) -> Bool {
        if let before = told[path], !Self.differs(before, advertisement) { return false }
        told[path] = advertisement
        return true
    }

    mutating func forget(_ path: String) { told[path] = nil }

    private static func differs(_ before: Advertisement, _ now: Advertisement) -> Bool {
        guard before.address == now.address, before.name == now.name, before.services == now.services,
            before.isPaired == now.isPaired
        else { return true }
        guard let rssi = now.rssi else { return false }
        return before.rssi.map { abs(Int($0) - Int(rssi)) >= step } ?? true
    }
}
