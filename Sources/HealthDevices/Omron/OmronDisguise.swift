import HealthReadings

/// What may be shown of the octets of an Omron monitor's memory that were read in a contact.
///
/// Records get other values, with their flags, running numbers and sums. The index and what is blank stay. Everything else
/// becomes zeros, since nobody knows whose it is.
package struct OmronDisguise: Sendable {
    private var map = OmronMap()
    private var shown: [UInt8?] = []

    package init() {}

    /// Takes octets that were read at an address.
    package mutating func note(_ octets: [UInt8], at address: UInt16) { map.note(octets, at: address) }

    /// Makes the other values, once everything was noted.
    ///
    /// - Parameters:
    ///   - generator: what the values are taken from.
    ///   - moving: gives another time for that of a record.
    package mutating func settle(
        using generator: inout some RandomNumberGenerator, moving: (WallTime) -> WallTime
    ) {
        let runs = map.runs
        shown = Array(repeating: nil, count: OmronMap.size)
        func show(_ octets: [UInt8], at address: UInt16) {
            for (place, octet) in octets.enumerated() where Int(address) + place < OmronMap.size {
                shown[Int(address) + place] = octet
            }
        }
        for area in map.areas(beside: runs) {
            switch area.content {
            case .index(let octets): show(octets, at: area.address)
            case .blank(let octet): show([UInt8](repeating: octet, count: area.count), at: area.address)
            case .hidden, .refused: break
            }
        }
        for run in OmronMap.disguised(runs, using: &generator, moving: moving) {
            for (number, slot) in run.slots.enumerated() {
                show(slot, at: run.address + UInt16(number * run.layout.length))
            }
        }
    }

    /// As many octets as may be shown in place of those at an address.
    package func octets(_ count: Int, at address: UInt16) -> [UInt8] {
        (0..<count).map { place in
            let place = Int(address) + place
            return shown.indices.contains(place) ? shown[place] ?? 0 : 0
        }
    }
}
