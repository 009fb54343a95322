import Foundation
import GATTClient
import GATTProfiles
import HealthReadings
import Testing

@testable import HealthDevices

/// The lists of services and characteristics in the gateway name the same ones.
@Suite struct ServiceProfileTests {
    private let decoder = StandardFrameDecoder()

    private func numbers(_ uuids: [BluetoothUUID]) -> Set<UInt16> { Set(uuids.compactMap(\.assignedNumber)) }

    @Test("what is read from a device is what the profiles call records, with what comes beside them")
    func streams() {
        let streams: [RecordStreams] = [.glucose, .continuousGlucose, .measurements]
        #expect(numbers(streams.flatMap(\.records)) == numbers(ServiceProfile.all.flatMap(\.records)))
        #expect(numbers(streams.flatMap(\.others)) == numbers(ServiceProfile.all.flatMap(\.beside)))
        // A scale's composition is read before its weight.
        #expect(RecordStreams.measurements.records == [0x2A1C, 0x2A5E, 0x2A9C, 0x2A9D, 0x2A35])
        #expect(
            Set([LiveCourse.heartRate, LiveCourse.oximeter]) == Set(ServiceProfile.all.flatMap(\.live)))
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
            #expect(row.contains("| yes |") == kind.isDelivered, "\(kind)")
        }
        // No other place lists some of them as if they were all.
        for line in text.split(separator: "\n") where line.contains("Kinds are") || line.contains("by kind (") {
            for kind in ReadingKind.allCases { #expect(line.contains("`\(kind.rawValue)`"), "\(line)") }
        }
    }

    @Test("a characteristic without its service is offered by its profile's, and read for the proof of a bond")
    func offered() {
        for profile in ServiceProfile.all {
            for uuid in profile.records + profile.live {
                let offered = OfferedServices([Characteristic(uuid: uuid, service: nil, valueHandle: 1)])
                #expect(offered.services == [profile.service], "\(uuid)")
            }
        }
        // Date Time stands in several services.
        #expect(Set(BondProof.readable).subtracting([0x2A08]).isSubset(of: Set(ServiceProfile.all.flatMap(\.readable))))
        #expect(Set(ServiceProfile.all.flatMap(\.characteristics)).count == ServiceProfile.homes.count)
    }
}
