import HealthReadings
import Testing

@testable import HealthDevices

@Suite struct ViatomRepeatTests {
    private let log = EventLog()

    private static func record(_ number: Int) -> [UInt8] {
        func little(_ value: Int, _ count: Int) -> [UInt8] { (0..<count).map { UInt8(value >> (8 * $0) & 0xFF) } }
        var octets = little(1_772_000_000 + number * 600, 4) + little(218_071, 4)
        octets += [UInt8](repeating: 0, count: 5)
        for value in [120 + number % 40, 76, 98, 64] { octets += little(value, 2) }
        return octets + [UInt8](repeating: 0, count: 16)
    }

    @Test("an answer that comes twice is not taken for the next one's", arguments: [37, 40, 74, 100])
    func repeated(piece: Int) async throws {
        let store = RecordingStore(log)
        var behaviour = EmulatedViatom.Behaviour()
        behaviour.records = (0..<12).map(Self.record)
        (behaviour.pieceOfList, behaviour.repeatsAnswers) = (piece, true)
        let monitor = EmulatedViatom(behaviour, log: log)
        let summary = try await MeterReader(journal: store, memory: store).read(monitor)
        let wanted = Set((0..<12).map { WallTime(secondsSinceEpoch: Int64(1_772_000_000 + $0 * 600)) })
        let read = Set(store.records.map(\.baseTime))
        #expect(read.isSubset(of: wanted), "times that were never recorded")
        #expect(!summary.isComplete || read == wanted, "said to be whole")
    }

    @Test("a list whose length is no number of records is not cut into records")
    func otherLength() throws {
        // Records of 39 octets, say.
        #expect(throws: MalformedFrame.self) { try ViatomList([UInt8(10 + 4 * 39), 0, 0, 0]) }
        #expect(throws: MalformedFrame.self) { try ViatomList([9, 0, 0, 0]) }
        #expect(try ViatomList([0, 0, 0, 0]).isWhole && ViatomList([10, 0, 0, 0]).size == 10)
        #expect(try ViatomList([UInt8(10 + 4 * 37), 0, 0, 0]).size == 158)
    }
}
