import EncodedSensor
import FreeStyleLibre
import ISO15693Reader
import LibreReader
import Synchronization
import Testing

/// A tag and a reader in memory, with faults: what a transport shows, below which nothing of ours is left.
final class EmulatedTag: ISO15693Transport {
    struct State {
        /// The sensors at the reader, by the number of the request from which on they are there.
        var sensors: [(from: Int, sensor: EncodedSensor)]
        /// The most blocks a request may ask for.
        var blocksPerRequest = 3
        /// What the nth request of all gives instead of an answer.
        var faults: [Int: ISO15693Error] = [:]
        /// What a request gives whenever it comes.
        var refusals: [ISO15693Request: ISO15693Error] = [:]
        /// How often each request is not answered before it is.
        var silentAtFirst = 0
        /// Answers that are a byte short, by the number of the request.
        var short: Set<Int> = []
        /// Changes the memory as it is read: by round.
        var memory: (@Sendable (_ round: Int, [UInt8]) -> [UInt8])?

        var requests: [ISO15693Request] = []
        var tries: [ISO15693Request: Int] = [:]
        var rounds = 0
    }

    let state: Mutex<State>

    init(_ sensor: EncodedSensor, _ change: (inout State) -> Void = { _ in }) {
        var state = State(sensors: [(0, sensor)])
        change(&state)
        self.state = Mutex(state)
    }

    var requests: [ISO15693Request] { state.withLock { $0.requests } }

    func exchange(_ request: ISO15693Request) async throws(ISO15693Error) -> [UInt8] {
        let result = state.withLock { $0.answer(request) }
        return try result.get()
    }

    func close() async {}
}

extension EmulatedTag.State {
    fileprivate mutating func answer(_ request: ISO15693Request) -> Result<[UInt8], ISO15693Error> {
        requests.append(request)
        tries[request, default: 0] += 1
        if let fault = faults[requests.count] ?? refusals[request] { return .failure(fault) }
        if tries[request, default: 0] <= silentAtFirst { return .failure(.tagSilent) }
        guard let sensor = sensors.last(where: { $0.from <= requests.count })?.sensor else { return .failure(.noTag) }
        let data = answer(request, sensor)
        return data.map { short.contains(requests.count) ? Array($0.dropLast()) : $0 }
    }

    private mutating func answer(
        _ request: ISO15693Request, _ sensor: EncodedSensor
    ) -> Result<[UInt8], ISO15693Error> {
        switch request {
        case .inventory: return .success([0] + sensor.uidOnAir)
        case .patchInformation, .abbottPatchInformation:
            // A tag answers its own maker's number only.
            let isAbbotts = request == .abbottPatchInformation
            guard isAbbotts == (sensor.uid >> 48 & 0xFF == 0x7A) else { return .failure(.tagSilent) }
            return .success(sensor.patchInformation)
        case .systemInformation: return .success([0x0F] + sensor.uidOnAir + [0, 0, 42, 7, 0])
        case .readSingleBlock(let block): return blocks(Int(block), 1, sensor)
        case .readMultipleBlocks(let first, let count):
            guard count <= blocksPerRequest else { return .failure(.tag(code: 0x10)) }
            return blocks(Int(first), Int(count), sensor)
        }
    }

    private mutating func blocks(
        _ first: Int, _ count: Int, _ sensor: EncodedSensor
    ) -> Result<[UInt8], ISO15693Error> {
        guard first + count <= LibreMemory.blockCount else { return .failure(.tag(code: 0x10)) }
        if first == 0 { rounds += 1 }
        let octets = memory?(rounds, sensor.memory) ?? sensor.memory
        return .success(Array(octets[(8 * first)..<(8 * (first + count))]))
    }
}

/// The error a tag is refused with.
func failure(_ tag: EmulatedTag) async -> LibreReadError? {
    do {
        _ = try await Libre1Reader(tag).read()
        return nil
    } catch {
        return error
    }
}
