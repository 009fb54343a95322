import Testing

/// A meter that is paired once and lent to one test after the other: each finds it well-behaved, empty and bonded.
actor SharedMeter {
    static let glucose = SharedMeter(Meters.accuchek(["mtu": 185]))
    static let cuff = SharedMeter(Meters.omron())

    private let definition: Document
    private var meter: LabMeter?

    init(_ definition: Document) { self.definition = definition }

    /// Lends it on a lab that is fresh otherwise.
    func borrow(records: Document = [], _ behaviour: Document = [:]) async throws -> LabMeter {
        let lab = try await Lab.fresh(keeping: meter.map { [$0] } ?? [])
        let lent: LabMeter
        if let meter, try await isBonded(meter, lab) {
            lent = meter
        } else {
            let fresh = try await Lab.fresh()
            lent = try await fresh.add(definition)
            let paired = try await TestGateway().pair(lent)
            try #require(paired.status == 0, "\(paired.errors)")
            meter = lent
        }
        try await lent.replaceRecords(records)
        try await lent.behave(behaviour)
        return lent
    }

    private func isBonded(_ meter: LabMeter, _ lab: Lab) async throws -> Bool {
        guard let state = try? await meter.state() else { return false }
        let bonds = try await lab.bonds()
        return state["bonds"]?.elements.isEmpty == false && bonds.contains(meter.address)
    }
}
