import Foundation
import GATTClient
import GATTProfiles
import GatewayCommands
import HCICapture
import HealthDevices
import HealthReadings
import Synchronization

extension FuzzTarget {
    /// A btsnoop file's records and connections.
    static let btsnoop = FuzzTarget(
        "btsnoop", longest: 16_384, seeds: Captures.everyBTSnoop, run: CaptureProperties.checkRecords)

    /// A pcap file's records and connections.
    static let pcap = FuzzTarget("pcap", longest: 16_384, seeds: Captures.pcap, run: CaptureProperties.checkRecords)

    /// A pcapng file's records and connections.
    static let pcapng = FuzzTarget(
        "pcapng", longest: 16_384, seeds: Captures.pcapng, run: CaptureProperties.checkRecords)

    /// A whole capture through the live path: central, reader, decoder, identity and time.
    static let replay = FuzzTarget("replay", longest: 16_384, seeds: Captures.everyBTSnoop) { octets in
        guard let path = try? Captures.file(octets) else { return }
        let finished = DispatchSemaphore(value: 0)
        Task.detached {
            await CaptureProperties.checkReplay(path)
            finished.signal()
        }
        finished.wait()
    }

    /// A handle map.
    static let handleMap = FuzzTarget(
        "handle-map", longest: 512, words: ["{", "}", "\"0x000e\"", ":", "\"2a18\"", ",", "65535"],
        seeds: { folder in
            try Captures.octets(folder, ending: ".handles.json")
                + [#"{"14":"2a52","0x0010":"0000180d-0000-1000-8000-00805f9b34fb"}"#].inputs
        }
    ) { octets in
        do { _ = try HandleMap(json: octets) } catch { _ = "\(error)" }
    }
}

/// What holds of any octets that are taken for a capture.
enum CaptureProperties {
    /// Promise 11 for records: the same whatever the chunking.
    @Sendable static func checkRecords(_ octets: [UInt8]) {
        expect(records(octets, 4096) == records(octets, 29), "records depend on how much is read at a time")
        let (large, small) = (index(octets, 4096), index(octets, 29))
        expect(large == small, "connections depend on how much is read at a time")
    }

    private static func records(_ octets: [UInt8], _ size: Int) -> [Result<CaptureRecord, CaptureError>] {
        var found: [Result<CaptureRecord, CaptureError>] = []
        do throws(CaptureError) {
            var reader = try CaptureReader(octets: octets, readSize: size)
            while let record = try reader.next() {
                if let time = record.time { _ = time.description }
                found.append(.success(record))
            }
        } catch {
            _ = error.description
            found.append(.failure(error))
        }
        return found
    }

    private static func index(_ octets: [UInt8], _ size: Int) -> String {
        do throws(CaptureError) {
            let index = try CaptureIndex(octets: octets, readSize: size)
            return "\(index.connections.hashValue) \(String(describing: index.failure)) \(index.recordsDropped)"
        } catch {
            return error.description
        }
    }

    /// Promise 11 for values, then the live path.
    static func checkReplay(_ path: String) async {
        let (large, small) = (await values(path, 4096), await values(path, 61))
        expect(large == small, "values depend on how much is read at a time")
        let (first, second) = (await readings(path), await readings(path))
        expect(first == second, "the same capture gave other readings")
    }

    /// Everything the capture's peripherals give a reader that asks for all there is.
    private static func values(_ path: String, _ size: Int) async -> [CharacteristicValue] {
        var found: [CharacteristicValue] = []
        do {
            let central = try ReplayCentral(paths: [path], readSize: size)
            for try await peripheral in central.peripherals() { await drain(peripheral, into: &found) }
            _ = central.warnings.map { "\($0)" }
        } catch {}
        return found
    }

    private static func drain(_ peripheral: any Peripheral, into found: inout [CharacteristicValue]) async {
        _ = peripheral.advertisement
        guard (try? await peripheral.connect()) != nil,
            let characteristics = try? await peripheral.characteristics()
        else { return }
        for characteristic in characteristics {
            if let value = try? await peripheral.read(characteristic) { found.append(value) }
            try? await peripheral.startNotifying(characteristic)
        }
        let controlPoints = characteristics.filter { $0.uuid == 0x2A52 }
        var silences = 0
        for request: [UInt8] in [[4, 1], [1, 5], [1, 6], [1, 1], [3, 0], [1, 1]] {
            for point in controlPoints { try? await peripheral.write(request, to: point, expectingResponse: true) }
            burst: while silences < 64, let burst = try? await peripheral.nextValues(within: .seconds(30)) {
                switch burst {
                case .values(let values):
                    expect(!values.isEmpty, "a burst without values")
                    found += values
                    if values.contains(where: { $0.uuid == 0x2A52 }) { break burst }
                case .silence: silences += 1
                case .disconnected: break burst
                }
            }
        }
        for characteristic in characteristics { try? await peripheral.stopNotifying(characteristic) }
        await peripheral.disconnect()
    }

    /// What comes out of the live path, as it is printed.
    private static func readings(_ path: String) async -> [String] {
        guard let zone = ZoneRules.named("Europe/Berlin") else { return [] }
        let lines = Mutex<[String]>([])
        let journal = PassingJournal(decoder: StandardFrameDecoder(), zone: zone) { outputs in
            let texts = outputs.map { output in
                switch output {
                case .reading(let reading): reading.document.text
                case .malformed(let error, _): error.description
                }
            }
            lines.withLock { $0 += texts }
        }
        do {
            let report = try await CaptureReplay([path]).run(with: MeterReader(journal: journal, memory: journal))
            lines.withLock { $0 += report.incomplete + report.warnings.map { "\($0)" } }
        } catch {
            lines.withLock { $0.append("\(error)") }
        }
        return lines.withLock { $0 }
    }
}
