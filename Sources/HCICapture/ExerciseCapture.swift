import GATTClient

/// Takes octets through everything that reads captures: index, records, and the replay of every connection.
///
/// For fuzzing and property tests: it never traps and always returns, whatever the octets.
/// - Returns: how many values the replay delivered; nil where the octets are no capture.
package func exerciseCapture(_ octets: [UInt8], readSize: Int = 4096) -> Int? {
    guard let index = try? CaptureIndex(octets: octets, readSize: readSize) else { return nil }
    var values = 0
    for plan in ReplayPlan.make([index], handleMap: nil, address: nil).plans {
        guard var visit = try? ReplayVisit(plan, readSize: readSize) else { continue }
        repeat { values += (try? exercise(&visit)) ?? 0 } while visit.beginNextVisit()
    }
    return values
}

private func exercise(_ visit: inout ReplayVisit) throws -> Int {
    var values = 0
    _ = try visit.connect()
    for characteristic in visit.plan.characteristics {
        _ = try? visit.read(characteristic)
        try visit.setNotifying(true, characteristic)
    }
    for characteristic in visit.plan.characteristics where characteristic.uuid == .recordAccessControlPoint {
        for request: [UInt8] in [[4, 1], [3, 0], [1, 6], [1, 1]] { try? visit.write(request, to: characteristic) }
    }
    while true {
        // Longer than any capture: one wait reaches the end.
        switch try visit.nextValues(within: .seconds(400_000_000_000)) {
        case .values(let burst): values += burst.count
        case .silence: continue
        case .disconnected:
            visit.disconnect()
            return values
        }
    }
}
