import GATTClient
import HealthReadings
import Synchronization

/// Captures as a central: each connection is a peripheral that says what its device said then.
///
/// - A connection in which the device sent no value and no clock was read is not offered: the host only bonded, say.
/// - Connections are offered in the order they began, whatever the order of the files: a device's clock places a record
///   when it is first read, and best soon after. Those that began at one moment are offered in the order of the files.
///   The next is offered once the last is disconnected (one that was never connected to is not waited for).
/// - Reads answer with the first value recorded for the characteristic in that connection, else with the ATT error
///   "read not permitted" (0x02). Every write is accepted.
/// - In a service of a maker's own that the recorded host wrote to, what was written decides the answer: octets that it
///   wrote are answered by what the device sent between that and its next write to the service, as often as they are
///   written; others are answered by silence.
/// - Enabling a characteristic releases its other values. Those of 2A18, 2A34 and 2AA7 beside a RACP wait for a report request:
///   any report request plays them up to the next recorded answer to one, whatever its filter, but for a refusal, which
///   answers the very request that was refused then and is passed over by others; only a request for the first
///   or the last record (operators 5 and 6) must be the one the capture holds next. A count or an abort is answered as
///   the capture holds it. What the capture does not hold is answered "op code not supported" (`06 00 op 02`), and is
///   the only thing that is not from the capture.
/// - A peripheral whose records the recorded host asked for by a narrower filter than the reader says so
///   (`AnswerSource.narrowerRecording`), and so does one whose control point is not known: it does not show that the
///   device had no more.
/// - The packet time is the only clock: silence is the capture's silence, and a device is gone when its connection ended.
/// - Values a visit did not consume are offered again, as another visit of the same peripheral, until a visit consumes
///   nothing. The later visit's connection time is that of the last value consumed before it.
///
/// The same captures give the same bytes out, whatever the chunking and the host. Memory does not grow with the number
/// of values.
public final class ReplayCentral: Central {
    /// The connections that are offered, in this order.
    public let connections: [CaptureConnection]
    /// The damage of the captures, the first first. The stream of peripherals ends with it, after all peripherals.
    public let failures: [CaptureError]

    private let indexes: [CaptureIndex]
    private let handleMap: HandleMap?
    private let plans: [ReplayPlan]
    private let found: [ReplayWarning]
    private let unread = Mutex<[Int: [ReplayWarning]]>([:])
    private let readSize: Int

    /// A capture that is replayed.
    public enum Source: Sendable, Hashable {
        /// A file.
        case path(String)
        /// The octets of one, and what to call it.
        case octets([UInt8], name: String)

        /// What it is called.
        var name: String {
            switch self {
            case .path(let name), .octets(_, let name): name
            }
        }
    }

    /// Reads the captures once and keeps their connections.
    ///
    /// - Parameters:
    ///   - paths: the captures.
    ///   - handleMap: names handles that no discovery in the captures names.
    ///   - address: stands for the address of peers whose address the captures do not show, or show as a private one alone.
    ///   - readSize: how many octets are read at a time.
    /// - Throws: ``CaptureError`` where a file cannot be opened or read. Damage is no error here, nor is a file that is no
    ///   capture: see ``failures``.
    public convenience init(
        paths: [String], handleMap: HandleMap? = nil, address: DeviceAddress? = nil,
        readSize: Int = CaptureReader.defaultReadSize
    ) throws(CaptureError) {
        try self.init(
            sources: paths.map { .path($0) }, handleMap: handleMap, address: address, readSize: readSize)
    }

    /// Reads captures, some of which may be in memory, once and keeps their connections.
    ///
    /// - Parameters:
    ///   - sources: the captures.
    ///   - handleMap: names handles that no discovery in the captures names.
    ///   - address: stands for the address of peers whose address the captures do not show, or show as a private one alone.
    ///   - readSize: how many octets are read at a time.
    /// - Throws: ``CaptureError`` where a file cannot be opened or read. Damage is no error here, nor is a file that is no
    ///   capture: see ``failures``.
    public convenience init(
        sources: [Source], handleMap: HandleMap? = nil, address: DeviceAddress? = nil,
        readSize: Int = CaptureReader.defaultReadSize
    ) throws(CaptureError) {
        var files: [CaptureFile] = []
        for source in sources {
            switch source {
            case .path(let path): files.append(try CaptureFile(path: path))
            case .octets(let octets, let name): files.append(CaptureFile(octets: octets, named: name))
            }
        }
        var indexes: [CaptureIndex] = []
        var failures: [CaptureError] = []
        var fileWarnings: [ReplayWarning] = []
        for (path, file) in zip(sources.map(\.name), files) {
            do throws(CaptureError) {
                let index = try CaptureIndex(file, readSize: readSize)
                indexes.append(index)
                if let failure = index.failure { failures.append(failure) }
                if index.recordsDropped > 0 {
                    fileWarnings.append(.recordsDropped(path: path, count: index.recordsDropped))
                }
                if index.packetsWithoutTime > 0 {
                    fileWarnings.append(.packetsWithoutTime(path: path, count: index.packetsWithoutTime))
                }
            } catch {
                // One file that is no capture does not take the readings of the others with it.
                guard error.systemError == nil else { throw error }
                failures.append(error)
            }
        }
        self.init(
            indexes, handleMap: handleMap, address: address, failures: failures, fileWarnings: fileWarnings,
            readSize: readSize)
    }

    private init(
        _ indexes: [CaptureIndex], handleMap: HandleMap?, address: DeviceAddress?, failures: [CaptureError],
        fileWarnings: [ReplayWarning], readSize: Int
    ) {
        (plans, found) = ReplayPlan.make(indexes, handleMap: handleMap, address: address)
        connections = plans.map(\.entry.summary)
        (self.indexes, self.handleMap) = (indexes, handleMap)
        (self.failures, self.fileWarnings, self.readSize) = (failures, fileWarnings, readSize)
    }

    /// The same captures, which are not opened again, with another address.
    ///
    /// - Parameter address: stands for the address of peers whose address the captures do not show.
    package func with(address: DeviceAddress) -> ReplayCentral {
        ReplayCentral(
            indexes, handleMap: handleMap, address: address, failures: failures, fileWarnings: fileWarnings,
            readSize: readSize)
    }

    private let fileWarnings: [ReplayWarning]

    /// How many values the offered connections hold: notifications and indications, control points included.
    public var attValues: Int { connections.reduce(0) { $0 + $1.attValues } }

    /// What could not be done: at once what the captures lack, and after the stream has ended what was left unread.
    public var warnings: [ReplayWarning] {
        fileWarnings + found + unread.withLock { $0.sorted { $0.key < $1.key }.flatMap(\.value) }
    }

    /// The captures' peripherals. Each call replays from the beginning.
    ///
    /// Finishes by throwing the first of ``failures`` where there is one.
    public func peripherals() -> AsyncThrowingStream<any Peripheral, any Error> {
        let sequence = ReplaySequence(plans, failure: failures.first, readSize: readSize) { number, warnings in
            self.unread.withLock { $0[number] = warnings }
        }
        return AsyncThrowingStream { try await sequence.next() }
    }
}

/// Offers the connections of a replay one after another.
private actor ReplaySequence {
    private let plans: [ReplayPlan]
    private let readSize: Int
    private let report: @Sendable (Int, [ReplayWarning]) -> Void
    private var failure: CaptureError?
    private var number = 0
    private var gate: VisitGate?

    init(
        _ plans: [ReplayPlan], failure: CaptureError?, readSize: Int,
        report: @escaping @Sendable (Int, [ReplayWarning]) -> Void
    ) {
        (self.plans, self.failure, self.readSize, self.report) = (plans, failure, readSize, report)
    }

    func next() async throws -> (any Peripheral)? {
        if let gate {
            self.gate = nil
            let remainder = await gate.remainder()
            guard !Task.isCancelled else { return nil }
            if var visit = remainder {
                if visit.beginNextVisit() { return offer(visit) }
                report(number - 1, visit.unread)
            } else {
                report(number - 1, plans[number - 1].unread())
            }
        }
        guard number < plans.count else {
            defer { failure = nil }
            if let failure { throw failure }
            return nil
        }
        number += 1
        return offer(try ReplayVisit(plans[number - 1], readSize: readSize))
    }

    private func offer(_ visit: ReplayVisit) -> any Peripheral {
        let gate = VisitGate()
        self.gate = gate
        return ReplayPeripheral(visit, gate: gate)
    }
}
