import GatewaySettings
import HealthReadings
import ReadingStore

/// The units that a person wants values in, by the person's settings; none: each value as it was measured.
struct PersonUnits: Sendable {
    private let units: [(kind: ReadingKind, unit: MeasurementUnit?)]

    init(of person: StoreUser, _ settings: Settings) {
        let setting = settings.people.first { $0.clientUserID == person.clientUserID }?.reports ?? .init()
        func unit(_ symbol: String?) -> MeasurementUnit? { MeasurementUnit.allCases.first { $0.symbol == symbol } }
        units = [
            (kind: .glucose, unit: unit(setting.glucoseUnit)), (kind: .bloodPressure, unit: unit(setting.pressureUnit)),
            (kind: .weight, unit: unit(setting.weightUnit)),
        ]
    }

    /// The unit of a kind of readings.
    subscript(kind: ReadingKind) -> MeasurementUnit? { units.first { $0.kind == kind }?.unit }

    /// `{"glucose", "blood_pressure", "weight"}`, null where the person has set none.
    var document: JSONValue {
        .object(units.map { .init($0.kind.rawValue, .optional($0.unit?.symbol)) })
    }
}
