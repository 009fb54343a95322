import FleetDocuments
import FleetStore
import HealthReadings

extension FleetBatch {
    /// Reads what a gateway sent as its readings, and opens it where it is sealed.
    ///
    /// - Parameters:
    ///   - gateway: who sent it.
    ///   - keys: the centre's keys: the present one, and earlier ones that batches on their way may be sealed to.
    static func read(
        _ octets: [UInt8], from gateway: GatewayID, keys: [OpeningKey]
    ) throws(FleetDocumentError) -> FleetBatch {
        switch try FleetUpload(octets, from: gateway) {
        case .plain(let batch): return batch
        case .sealed(let sealed):
            guard let key = keys.first(where: { $0.sealingKey.fingerprint == sealed.key }) else {
                throw .otherKey(expected: keys.first?.sealingKey.fingerprint ?? "none", found: sealed.key)
            }
            return try sealed.opened(with: key)
        }
    }

    /// The batch as the store keeps it.
    func arrived(at instant: Instant) -> ArrivedBatch {
        let sent = readings.map { reading in
            CentralReading(
                gateway: gateway.description, id: reading.id.description, revision: reading.revision, batch: number,
                taken: reading.time, kind: reading.kind, person: reading.person, body: reading.body.text)
        }
        let retractions = retracted.map { retraction in
            CentralReading(
                gateway: gateway.description, id: retraction.id.description, revision: retraction.revision,
                batch: number, taken: nil, kind: nil, person: nil, body: nil)
        }
        return ArrivedBatch(
            gateway: gateway.description, number: number, received: instant, readings: sent + retractions)
    }
}

extension JSONValue {
    /// Compact JSON as bytes.
    var octets: [UInt8] {
        var octets: [UInt8] = []
        write(into: &octets)
        return octets
    }
}
