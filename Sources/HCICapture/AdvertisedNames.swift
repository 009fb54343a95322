import HealthReadings

/// The names advertisers were heard with: the last few thousand, so that a crowded place costs no memory.
struct AdvertisedNames {
    private var names: [DeviceAddress: [UInt8]] = [:]
    private var order: [DeviceAddress] = []
    private var oldest = 0
    private static let most = 4096

    subscript(address: DeviceAddress) -> String? {
        names[address].map { name in String(decoding: name.prefix { $0 != 0 }, as: UTF8.self) }
    }

    /// Reads the structures of advertising data: types 8 (shortened) and 9 (complete local name).
    ///
    /// Core Specification, Vol 3, Part C, 11; Supplement, Part A, 1.2.
    mutating func add(_ address: DeviceAddress, _ octets: borrowing [UInt8], _ data: Range<Int>) {
        var place = data.lowerBound
        while place + 1 < data.upperBound {
            let end = place + 1 + Int(octets[place])
            guard end > place + 1, end <= data.upperBound else { return }
            let type = octets[place + 1]
            if type == 9 || type == 8, end > place + 2 {
                let name = octets[(place + 2)..<end]
                if let known = names[address] {
                    if type == 9 || known.count < name.count, !known.elementsEqual(name) {
                        names[address] = Array(name)
                    }
                } else {
                    insert(Array(name), for: address)
                }
            }
            place = end
        }
    }

    private mutating func insert(_ name: [UInt8], for address: DeviceAddress) {
        if order.count < Self.most {
            order.append(address)
        } else {
            names[order[oldest]] = nil
            order[oldest] = address
            oldest = (oldest + 1) % Self.most
        }
        names[address] = name
    }
}
