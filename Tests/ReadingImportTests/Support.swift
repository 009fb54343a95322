import HealthReadings
import ReadingImport
import Testing

/// What a file gives, read to its end or to where it is damaged.
struct Found {
    var samples: [ImportedSample] = []
    var refused: [ImportRefusal] = []
    var counts = ImportCounts()
    var damage: ImportDamage?

    init(
        _ text: String, format: ImportFormat? = nil, zone: String = "Europe/Berlin", order: DateOrder? = nil
    ) throws {
        try self.init(octets: Array(text.utf8), format: format, zone: zone, order: order)
    }

    init(
        octets: [UInt8], format: ImportFormat? = nil, zone: String = "Europe/Berlin", order: DateOrder? = nil
    ) throws {
        let zone = try #require(ZoneRules.named(zone))
        let rules = ImportRules(
            person: "white_bear", zones: [(Instant(microseconds: .min), zone)], dateOrder: order, takesPeople: true)
        let reader = try ImportFile(octets: octets, format: format).reader(rules)
        do throws(ImportDamage) {
            while let item = try reader.next() {
                switch item {
                case .sample(let sample): samples.append(sample)
                case .refused(let refusal): refused.append(refusal)
                }
            }
        } catch {
            damage = error
        }
        counts = reader.counts
    }

    /// The only sample.
    var only: ImportedSample {
        get throws {
            #expect(samples.count == 1 && refused.isEmpty && damage == nil)
            return try #require(samples.first)
        }
    }
}

/// The damage of a file that cannot be read at all.
func damage(of text: String, format: ImportFormat? = nil, order: DateOrder? = nil) throws -> ImportDamage? {
    do { return try Found(text, format: format, order: order).damage } catch let error as ImportDamage { return error }
}

extension ImportedSample {
    /// The digits and the unit of the main value: `5.6 mmol/L`.
    var main: String {
        let quantity: Quantity? =
            switch value {
            case .glucose(let glucose): glucose.concentration
            case .bloodPressure(let pressure): pressure.systolic
            case .vital(let vital): vital.main
            case .kept: nil
            }
        guard let quantity, case .value(let number) = quantity.number else { return "none" }
        return "\(number) \(quantity.unit.symbol)"
    }
}
