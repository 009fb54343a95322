import HealthFigures
import HealthReadings

/// The Observations of one reading.
struct FHIRObservations {
    let reading: Reading
    let context: FormatContext
    let change: FHIRChange
    let device: FHIRDevice
    let gateway: FHIRGateway
    /// What the device's clock showed; nil if it could not be read.
    let clock: FHIRResource?
    /// What is said of the person: a reference.
    let subject: JSONValue

    private let content: FHIRContent
    /// When it was measured: an instant, or the period of a recording.
    private let effective: JSONValue.Member

    init(
        of reading: Reading, in context: FormatContext, as change: FHIRChange, subject: JSONValue
    ) throws(FormatOmission) {
        guard reading.excluded == nil || change == .retracted else { throw FormatOmission(.excluded) }
        guard let begin = reading.time.instant?.flooredToSecond, let start = begin.rfc3339(in: context.zone) else {
            throw FormatOmission(.noTime)
        }
        self.reading = reading
        self.context = context
        self.change = change
        self.subject = subject
        // The mean of a recording stands for the time of its samples.
        if let last = reading.seriesEnd?.flooredToSecond, last > begin, let end = last.rfc3339(in: context.zone) {
            effective = .init("effectivePeriod", .object(["start": .string(start), "end": .string(end)]))
        } else {
            effective = .init("effectiveDateTime", .string(start))
        }
        content = try FHIRContent(reading)
        device = FHIRDevice(reading, in: context)
        gateway = FHIRGateway(context.gateway)
        clock = device.clock(of: reading, in: context, gateway: gateway)
    }

    /// What the Observations do not say.
    var omissions: [FormatOmission] { change == .retracted ? [] : content.omissions }

    /// One for each measurement.
    var resources: [FHIRResource] { content.measurements.map(resource) }

    /// What a measurement of a reading is known by.
    static func uuid(of reading: ReadingID, _ part: String) -> NameUUID { NameUUID("observation/\(reading)/\(part)") }

    private func resource(of measurement: FHIRMeasurement) -> FHIRResource {
        let uuid = Self.uuid(of: reading.id, measurement.part)
        let identifier = FHIRIdentifier(uuid)
        let isCompound = measurement.quantity == nil
        let quantity = change == .retracted ? nil : measurement.quantity
        return FHIRResource(
            uuid: uuid, type: "Observation", identifier: identifier,
            json: .object(
                of: .init("resourceType", "Observation"),
                .init(
                    "meta",
                    FHIRResource.profile(isCompound ? "PhdCompoundNumericObservation" : "PhdNumericObservation")),
                .init("extension", .array(extensions)),
                .init(
                    "identifier",
                    .array([identifier.json] + (guideIdentifier(of: measurement).map { [$0.json] } ?? []))),
                .init("status", .string(change.status)), .init("category", .array(categories(of: measurement))),
                .init("code", FHIRCoding.concept(measurement.codings, text: measurement.text)),
                .init("subject", subject), effective,
                quantity?.fhirQuantity.map { .init("valueQuantity", $0) },
                absence(of: measurement).map { .init("dataAbsentReason", $0) },
                .list("interpretation", interpretations(of: measurement)),
                .list("note", notes.map { .object(["text": .string($0)]) }),
                .init("device", FHIRResource.reference(to: device.uuid)),
                .list("component", components(of: measurement))))
    }

    /// What stands in place of a value that is withdrawn.
    private static let withdrawn = Quantity.fhirAbsence("error")

    /// Why a measurement has no value of its own; a withdrawn one has none, whatever it had.
    private func absence(of measurement: FHIRMeasurement) -> JSONValue? {
        measurement.quantity.flatMap { change == .retracted ? Self.withdrawn : $0.fhirAbsence }
    }

    /// What the device thinks of a value that it sent.
    private func interpretations(of measurement: FHIRMeasurement) -> [JSONValue] {
        guard content.isQuestionable, change != .retracted, absence(of: measurement) == nil else { return [] }
        return [FHIRCoding.concept([FHIRCodes.questionable])]
    }

    private func categories(of measurement: FHIRMeasurement) -> [JSONValue] {
        let vitalSigns = FHIRCoding(
            system: "http://terminology.hl7.org/CodeSystem/observation-category", code: "vital-signs")
        let device = FHIRCoding(
            system: "http://hl7.org/fhir/uv/phd/CodeSystem/PhdObservationCategories", code: "phd")
        return (measurement.isVitalSign ? [vitalSigns, device] : [device]).map { FHIRCoding.concept([$0]) }
    }

    private var extensions: [JSONValue] {
        func reference(_ url: String, _ uuid: NameUUID) -> JSONValue {
            .object(["url": .string(url), "valueReference": FHIRResource.reference(to: uuid)])
        }
        let own = reference("http://hl7.org/fhir/StructureDefinition/observation-gatewayDevice", gateway.uuid)
        guard let clock else { return [own] }
        return [
            own,
            reference(
                "http://hl7.org/fhir/uv/phd/StructureDefinition/CoincidentTimeStampReference", clock.uuid),
        ]
    }

    private func components(of measurement: FHIRMeasurement) -> [JSONValue] {
        guard change != .retracted else {
            // The profile of blood pressures asks for the pressures, or for the reason why they are not there.
            return measurement.quantity != nil
                ? []
                : measurement.components.filter(\.isQuantity).map {
                    .object(["code": FHIRCoding.concept($0.codings), "dataAbsentReason": Self.withdrawn])
                }
        }
        return measurement.components.map { component in
            let value: JSONValue.Member? =
                switch component.value {
                case .quantity(let quantity):
                    quantity.fhirQuantity.map { .init("valueQuantity", $0) }
                        ?? quantity.fhirAbsence.map { .init("dataAbsentReason", $0) }
                case .concept(let coding, let text):
                    .init("valueCodeableConcept", FHIRCoding.concept(coding.map { [$0] } ?? [], text: text))
                case .set: .init("valueBoolean", true)
                }
            return .object(of: .init("code", FHIRCoding.concept(component.codings)), value)
        }
    }

    /// What a reader has to know about the time and the value.
    private var notes: [String] {
        guard change != .retracted else { return [] }
        var notes = content.notes
        switch reading.time.basis {
        case .assumedZone where reading.record.entry != nil:
            notes.append("A person entered this, with the time of \(context.zone.name).")
        case .reception where reading.record.entry != nil:
            notes.append("A person entered this without a time: this is when the gateway received it.")
        case .assumedZone where reading.record.imported != nil:
            notes.append("The imported data had no time zone: its time was taken to be that of \(context.zone.name).")
        case .assumedZone:
            notes.append("The device's clock could not be read: its time was taken to be that of \(context.zone.name).")
        case .reception: notes.append("The device sent no time: this is when the gateway received the measurement.")
        case .corrected, .sensorStart, .unknown: break
        }
        if let note = reading.record.entry?.note { notes.append(note) }
        if let imported = reading.record.imported { notes.append(imported.note) }
        if let minutes = reading.time.uncertaintyMinutes { notes.append("The time may be \(minutes) minutes off.") }
        return notes
    }

    /// The identifier by which any gateway that follows the guide knows this measurement: device, patient, type and the
    /// device's own time, uncorrected, in seconds since 2000-01-01T00:00:00.
    ///
    /// Nil where the device sent no time or has no address, or the patient is not known.
    private func guideIdentifier(of measurement: FHIRMeasurement) -> FHIRIdentifier? {
        guard let device = device.measurementKey, let patient = context.patient,
            let time = reading.record.deviceTime, let type = measurement.codings.first
        else { return nil }
        return FHIRIdentifier(
            system: "http://hl7.org/fhir/uv/phd/StructureDefinition/PhdBaseObservation",
            value: [
                device, patient.value, patient.system, type.code,
                String(time.secondsSinceEpoch - Self.secondsUntil2000),
            ].joined(separator: "-"))
    }

    /// From 1970-01-01 to 2000-01-01.
    private static let secondsUntil2000: Int64 = 946_684_800
}

extension ImportFacts {
    /// Where it comes from, in a sentence.
    fileprivate var note: String {
        let origin = [source, device].compactMap(\.self).joined(separator: ", ")
        let verb = isEntered ? "A person entered this in" : "Imported from"
        return origin.isEmpty ? "\(verb) another program." : "\(verb) another program: \(origin)."
    }
}
