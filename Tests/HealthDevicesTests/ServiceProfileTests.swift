import Foundation
import GATTClient
import GATTProfiles
import HealthReadings
import Testing

@testable import HealthDevices

/// What the gateway derives from the table of services.
@Suite struct ServiceProfileTests {
    private let decoder = StandardFrameDecoder()

    private func numbers(_ uuids: [BluetoothUUID]) -> Set<UInt16> { Set(uuids.compactMap(\.assignedNumber)) }

    @Test("what is read from a device is what the profiles call records, with what comes beside them")
    func streams() {
        let streams: [RecordStreams] = [.glucose, .continuousGlucose, .measurements]
        #expect(numbers(streams.flatMap(\.records)) == numbers(ServiceProfile.all.flatMap(\.records)))
        #expect(numbers(streams.flatMap(\.others)) == numbers(ServiceProfile.all.flatMap(\.companions)))
        // A scale's composition is read before its weight.
        #expect(RecordStreams.measurements.records == [0x2A1C, 0x2A5E, 0x2A9C, 0x2A9D, 0x2A35, 0x2B8B])
        #expect(RecordStreams.glucose.records == [0x2A18] && RecordStreams.glucose.others == [0x2A34])
        #expect(RecordStreams.continuousGlucose.records == [0x2AA7] && RecordStreams.continuousGlucose.others == [])
        #expect(RecordStreams.measurements.others == [0x2A1E, 0x2A36])
        #expect(Set(ServiceProfile.live) == [0x2A37, 0x2A5F])
    }

    @Test("clocks, proofs of a bond and what is asked for are those of the table, the best first")
    func derived() {
        #expect(ServiceProfile.clocks.map(\.uuid) == [0x2A2B, 0x2BF2, 0x2A08, 0x2AA9])
        #expect(ServiceProfile.clocks.filter(\.showsWallTime).map(\.uuid) == [0x2A2B, 0x2BF2, 0x2A08])
        #expect(
            ServiceProfile.proofs == [
                0x2A51, 0x2AA8, 0x2A49, 0x2BF3, 0x2A0F, 0x2A25, 0x2A24, 0x2A29, 0x2A26, 0x2A23, 0x2A27, 0x2A28, 0x2A19,
                0x2A2B, 0x2BF2,
                0x2A08, 0x2AA9,
            ])
        #expect(
            numbers(ServiceProfile.all.filter(\.isAskedFor).flatMap { $0.records + $0.companions }) == [
                0x2A18, 0x2A34, 0x2AA7,
            ])
        #expect(
            StandardFrameDecoder.knownCharacteristics == [
                0x2A08, 0x2A0F, 0x2A18, 0x2A19, 0x2A1C, 0x2A23, 0x2A24, 0x2A25, 0x2A26, 0x2A27, 0x2A28, 0x2A29, 0x2A2B,
                0x2A34, 0x2A35, 0x2A36, 0x2A37, 0x2A49, 0x2A51, 0x2A52, 0x2A5E, 0x2A5F, 0x2A9C, 0x2A9D, 0x2AA7, 0x2AA8,
                0x2AA9, 0x2AAA, 0x2AAB, 0x2AAC, 0x2B8B, 0x2BF2,
            ])
    }

    @Test("a contact makes a transfer for each way that records come, a maker's own first and a cuff's last")
    func transfers() {
        func transfers(_ uuids: [BluetoothUUID], service: BluetoothUUID? = nil) -> [String] {
            let device = EmulatedDevice(EmulatedDevice.Behaviour(), log: EventLog())
            let characteristics = uuids.enumerated().map { number, uuid in
                Characteristic(uuid: uuid, service: service, valueHandle: UInt16(number + 1))
            }
            return RecordTransfers(of: device, characteristics, model: nil, allRecords: false).transfers.map {
                "\(type(of: $0))"
            }
        }
        #expect(
            transfers([0x2A35, 0x2A9D, 0x2AA7, 0x2A1C, 0x2A18, OneTouch.questions, OneTouch.answers]) == [
                "OneTouchTransfer", "NumberedTransfer", "SessionTransfer", "UnpromptedTransfer",
            ])
        #expect(transfers([0x2A9D, 0x2A35]) == ["UnpromptedTransfer"])
        #expect(transfers([0x2A37, 0x2A2B, 0x2A36]) == [])
    }

    @Test("no file but the table lists characteristics and services by number")
    func numbersElsewhere() throws {
        let sources = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appending(path: "Sources")
        let number = /\b0x(?:18|2[AB])[0-9A-F]{2}\b/
        var places: Set<String> = []
        let files = try #require(FileManager.default.enumerator(at: sources, includingPropertiesForKeys: nil))
        for case let file as URL in files where file.pathExtension == "swift" {
            for line in try String(contentsOf: file, encoding: .utf8).split(separator: "\n")
            where line.contains(number) && !line.contains("static let assignedNumber") {
                if line.drop(while: { $0 == " " }).hasPrefix("//") { continue }
                places.insert(file.lastPathComponent)
            }
        }
        #expect(
            places == [
                "ServiceProfile.swift", "DeviceInformationString.swift",
                // What a model offers is data of its own.
                "Catalogue+Cuffs.swift", "Catalogue+Generic.swift", "Catalogue+GlucoseMeters.swift",
                "Catalogue+Omron.swift", "Catalogue+Sensors.swift",
                // What scales advertise under two services' numbers, in a format of their own.
                "XiaomiScale.swift",
                // A name's characteristic, BlueZ's own battery service, an example in a help text.
                "ATT.swift", "GATTObjects.swift", "Decode.swift",
                // What of each standard value a device's report keeps.
                "Anonymiser.swift", "ExchangeCapture.swift", "ExchangeRecorder.swift", "ModelReport.swift",
                "QuirkEvidence.swift", "StandardValues.swift",
            ])
    }

    @Test("each characteristic that brings records is decoded as one, and no other is")
    func decoded() {
        let records = numbers(ServiceProfile.all.flatMap { $0.records + $0.live })
        let contexts: Set<UInt16> = [0x2A34]
        let empty: [UInt8] = []
        for characteristic in Set(StandardFrameDecoder.knownCharacteristics).union(records) {
            // An empty value is refused by whatever reads it.
            guard case .malformed = decoder.decode(characteristic: characteristic, octets: empty.span.bytes) else {
                // A continuous sensor's values are read with their session, in a format of their own.
                #expect(!records.contains(characteristic) || characteristic == 0x2AA7, "\(characteristic)")
                continue
            }
            #expect(
                records.contains(characteristic) || contexts.contains(characteristic)
                    || characteristic == IntermediateCuffPressure.assignedNumber, "\(characteristic)")
        }
        #expect(
            numbers(ServiceProfile.all.flatMap(\.records)).isSubset(of: Set(StandardFrameDecoder.knownCharacteristics)))
        #expect(
            numbers(ServiceProfile.all.flatMap(\.live)).isSubset(of: Set(StandardFrameDecoder.knownCharacteristics)))
    }

    @Test(
        "each service that brings something is found by a generic entry of the catalogue, and each entry has a profile")
    func catalogue() {
        let generic = Set(Catalogue().models.filter { Brand(name: $0.brand).isGeneric }.flatMap(\.services))
        let profiles = Set(ServiceProfile.all.filter { !($0.records + $0.live).isEmpty }.map(\.service))
        #expect(generic == profiles)
    }

    @Test("the documentation of the command line lists every kind of reading")
    func documentedKinds() throws {
        let path = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appending(path: "Documentation/cli.md").path
        let text = try String(contentsOfFile: path, encoding: .utf8)
        let table = try #require(text.split(separator: "## Kinds\n").last?.split(separator: "\n## ").first)
        let rows = table.split(separator: "\n").filter { $0.hasPrefix("| `") }
        #expect(rows.map { $0.dropFirst(3).prefix { $0 != "`" } } == ReadingKind.allCases.map { $0.rawValue[...] })
        for (row, kind) in zip(rows, ReadingKind.allCases) where kind != .bodyComposition {
            #expect(row.contains("| yes |") == (kind.isDelivered && !kind.isLive), "\(kind)")
        }
        // No other place lists some of them as if they were all.
        for line in text.split(separator: "\n") where line.contains("Kinds are") || line.contains("by kind (") {
            for kind in ReadingKind.allCases { #expect(line.contains("`\(kind.rawValue)`"), "\(line)") }
        }
    }

    @Test("a characteristic without its service is offered by its profile's, and only by that")
    func offered() {
        for profile in ServiceProfile.all {
            for uuid in profile.records + profile.live {
                let offered = OfferedServices([Characteristic(uuid: uuid, service: nil, valueHandle: 1)])
                #expect(offered.services == [profile.service], "\(uuid)")
            }
        }
        // Date Time and the record access control point stand in several services.
        let places = ServiceProfile.all.flatMap { profile in profile.characteristics.map { ($0.uuid, profile.service) }
        }
        for (uuid, service) in places
        where uuid != 0x2A08 && uuid != 0x2A52 && uuid != 0x2AAC
            && uuid != 0x2BF4
        {
            #expect(ServiceProfile.homes[uuid] == service, "\(uuid)")
        }
        #expect(ServiceProfile.homes[0x2A08] == nil && ServiceProfile.homes[0x2A52] == nil)
    }
}
