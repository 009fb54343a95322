import ArgumentParser
import GATTClient
import GATTProfiles
import GatewayCommands
import GatewaySettings
import HealthDevices
import HealthReadings

struct Decode: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "decode", abstract: "Decode one characteristic's value as the gateway understands it.",
        discussion: "Example: healthrelay decode 2a18 '13 05 00 ea 07 0b 14 0c 1e 00 3c 00 5f b0 11'")

    @Argument(help: "2a18, 0x2A18 or a full UUID.")
    var characteristic: String
    @Argument(parsing: .remaining, help: "The octets in hexadecimal; spaces, colons and 0x are ignored.")
    var hex: [String] = []
    @Option(help: ArgumentHelp("The catalogue id of the device's model.", valueName: "id"))
    var model: String?
    @Option(help: ArgumentHelp("The user's time zone; adds the time that the reading would get.", valueName: "zone"))
    var timeZone: String?
    @OptionGroup var global: GlobalOptions

    func run() async throws {
        guard let uuid = BluetoothUUID(characteristic), let number = uuid.assignedNumber,
            StandardFrameDecoder.knows(characteristic: number)
        else {
            let known = StandardFrameDecoder.knownCharacteristics.map { BluetoothUUID($0).description }
            throw Problem(
                "unknown_characteristic", .usage,
                "expected a characteristic the gateway reads (\(known.joined(separator: ", "))), found '\(characteristic)'"
            )
        }
        if let model, Catalogue()[model] == nil { throw Problem.unknownModel(model) }
        let octets = try Hexadecimal.octets(hex.joined(separator: " "))
        let decoder = StandardFrameDecoder()
        let frame = Frame(
            format: FrameFormat(characteristic: number), payload: octets, receivedAt: Instant(microseconds: 0),
            ordinal: 0)
        switch ModelFrameDecoder().decode(frame, model: model) {
        case .malformed(let error): throw error
        case .record(let record): try print(record)
        case .nothing where number == IntermediateCuffPressure.assignedNumber:
            try print(IntermediateCuffPressure(decoding: octets))
        case .nothing, .glucoseContext, .sensor, .entry, .imported, .withdrawal, .figures:
            guard let value = try decoder.describe(characteristic: number, octets: octets) else {
                throw Problem("unknown_characteristic", .usage, "the gateway cannot decode \(uuid)")
            }
            if global.json {
                Terminal.data(JSONValue.object(["characteristic": .string(uuid.description), "value": value]).text)
            } else {
                Terminal.data("\(uuid): \(value.text)")
            }
        }
    }

    /// A pressure of the cuff: a reading's document with `cuff_pressure` where a person's pressure would be.
    private func print(_ pressure: IntermediateCuffPressure) throws {
        guard global.json, case .object(var members) = pressure.record.document() else {
            return try print(pressure.record)
        }
        if let index = members.firstIndex(where: { $0.key == "blood_pressure" }) {
            members[index] = .init("cuff_pressure", pressure.cuffPressure.document)
        }
        if let index = members.firstIndex(where: { $0.key == "omitted" }) {
            let absence = pressure.cuffPressure.number.absence
            members[index] = .init(
                "omitted", .object(absence.map { [.init("cuff_pressure", .string($0.rawValue))] } ?? []))
        }
        Terminal.data(JSONValue.object(members).text)
    }

    private func print(_ record: Record) throws {
        var document = record.document()
        if let timeZone {
            guard let zone = ZoneRules.named(timeZone) else { throw Problem.unknownZone(timeZone) }
            if record.deviceTime != nil, case .object(var members) = document {
                let time = TimeResolution(zone: zone, clock: nil).resolve(record, receivedAt: Instant.systemClock) {
                    nil
                }
                for (key, value) in [
                    ("time", JSONValue.optional(time.instant?.description)),
                    ("time_basis", .string(time.basis.rawValue)),
                    ("time_uncertainty_minutes", .optional(time.uncertaintyMinutes)),
                ] {
                    guard let index = members.firstIndex(where: { $0.key == key }) else { continue }
                    members[index].value = value
                }
                document = .object(members)
            }
        }
        guard !global.json else { return Terminal.data(document.text) }
        let when = record.deviceTime.map { "\($0) by the device's clock  " } ?? ""
        let fate = record.exclusion.map { "  [kept, not sent: \($0.words)]" } ?? ""
        Terminal.data(when + record.words + fate)
    }
}

extension Problem {
    static func unknownModel(_ id: String) -> Problem {
        Problem("unknown_model", .usage, "the catalogue has no model '\(id)'", hint: "see `healthrelay catalog`")
    }

    static func unknownZone(_ name: String) -> Problem {
        Problem("unknown_time_zone", .usage, "expected a time zone such as Europe/Berlin, found '\(name)'")
    }
}
