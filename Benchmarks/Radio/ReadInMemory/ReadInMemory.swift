import GATTProfiles
import HealthReadings
import ReadCourse
import Synchronization

/// Reads one meter and keeps what comes in memory, as a program does that embeds the library and has a store of its own:
/// `read-in-memory ADDRESS`.
@main
struct ReadInMemory {
    static func main() async throws {
        guard CommandLine.arguments.count > 1, let address = DeviceAddress(CommandLine.arguments[1]) else {
            throw BenchmarkError.usage
        }
        let memory = Memory()
        try await ReadCourse.run(address, journal: memory, memory: memory, pairings: memory)
    }
}

enum BenchmarkError: Error {
    case usage
}

/// The seams of the library, for the time of one run and one meter.
private final class Memory: FrameJournal, DeviceMemory, PairingMemory {
    private struct State {
        var contacts: Int64 = 0
        var epoch = 0
        var records: [ReadingID: Record] = [:]
        var pairings: [DevicePairing] = []
    }

    private let state = Mutex(State())

    func append(_ frames: [Frame], of contact: Contact) async throws -> [FrameOutcome] {
        state.withLock { state in
            frames.map { frame in
                switch StandardFrameDecoder().decode(frame, model: nil) {
                case .nothing, .sensor, .entry, .imported, .withdrawal, .figures: return .nothing
                case .glucoseContext: return .waiting
                case .malformed(let error): return .malformed(error)
                case .record(let record):
                    let id = ReadingIdentity(
                        of: record, epoch: contact.sequenceEpoch, frame: frame, contactStart: contact.startedAt
                    ).id(device: contact.device.address, kind: record.value.kind)
                    guard state.records.updateValue(record, forKey: id) == nil else { return .repeated(id) }
                    return .new(
                        Reading(
                            id: id, record: record, device: contact.device,
                            time: ResolvedTime(instant: nil, basis: .unknown), receivedAt: frame.receivedAt))
                }
            }
        }
    }

    func beginContact(
        with device: DeviceDescription, at start: Instant, clock: ClockReading?, batteryPercent: UInt8?
    ) async throws -> Contact {
        state.withLock { state in
            state.contacts += 1
            return Contact(
                id: state.contacts, device: device, startedAt: start, sequenceEpoch: state.epoch, clock: clock)
        }
    }

    func lastRecord(of contact: Contact) async throws -> LastRecord? {
        state.withLock { state in
            let newest = state.records.values.max { ($0.sequence ?? 0) < ($1.sequence ?? 0) }
            return newest.map {
                LastRecord(sequence: $0.sequence ?? 0, baseTime: $0.baseTime, count: state.records.count)
            }
        }
    }

    func beginSequenceEpoch(in contact: Contact) async throws -> Contact {
        var renewed = contact
        renewed.sequenceEpoch = state.withLock { state in
            state.epoch += 1
            return state.epoch
        }
        return renewed
    }

    func endContact(_ contact: Contact, _ summary: ContactSummary) async throws {}

    func pairings() async throws -> [DevicePairing] { state.withLock { $0.pairings } }

    func notePairing(of device: DeviceDescription, as pairing: PairingState) async throws {
        state.withLock {
            $0.pairings = [
                DevicePairing(device: device, addresses: device.address.map { [$0] } ?? [], state: pairing)
            ]
        }
    }

    func admit(_ device: DeviceDescription, as pairing: PairingState) async throws {
        try await notePairing(of: device, as: pairing)
    }
}
