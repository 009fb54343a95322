import GATTClient
import GATTProfiles
import HealthReadings

/// The state of one connection's replay: where its cursor is, what was consumed, what the reader has enabled.
///
/// The rules stand in the documentation of ``ReplayCentral``.
struct ReplayVisit {
    /// Values this close after each other (in microseconds) arrive together.
    private static let closeness: Int64 = 250_000
    private static let longestBurst = 256
    /// So many silences in a row end even where the capture's clock is broken.
    private static let mostSilences = 100_000
    private static let reportAll = RecordAccessRequest.report(.all).encoded

    private struct Progress {
        var isEnabled = false
        var wasEnabled = false
        /// How many values were delivered, over all visits; of a control point, how many answers to report requests.
        var consumed = 0
        /// How many of these the cursor has met since it began at the connection's beginning.
        var seen = 0
        /// Whether the cursor has gone past some that were not wanted then.
        var hasSkipped = false
    }

    let plan: ReplayPlan
    private let readSize: Int
    private var cursor: ConnectionCursor
    private var progress: [Progress]
    /// The place in `plan.routes` of the value the cursor is at, not yet delivered; -1 where it is at none.
    private var pending = -1
    private var lastRoute = 0
    /// Microseconds since the POSIX epoch: the capture's clock as this connection has come along it.
    private var clock: Int64
    private(set) var isConnected = false
    private(set) var isOver = false
    private var answers: [CharacteristicValue] = []
    private var dialogues: ReplayDialogues
    /// The control point whose report procedure runs; -1 where none does.
    private var procedure = -1
    /// What the reader asked for it.
    private var request: [UInt8] = []
    /// The recorded report request that is under way at the cursor, not yet answered.
    private var recordedRequest: (handle: UInt16, octets: [UInt8])?
    /// Whether records came that the recorded host may have asked for by a narrower filter than the reader.
    private(set) var answersLess = false
    /// Something was enabled or asked for since the last value: its answer counts from what the host then did.
    private var isReleased = false
    private var silences = 0
    private var hasConsumed = false
    /// The time of the value last delivered, where a visit before this one delivered any.
    private var earlierVisit: Int64?
    private var lastDelivered: Int64?

    init(_ plan: ReplayPlan, readSize: Int) throws(CaptureError) {
        self.plan = plan
        self.readSize = readSize
        cursor = try ConnectionCursor(plan.entry, readSize: readSize)
        progress = Array(repeating: Progress(), count: plan.routes.count)
        dialogues = ReplayDialogues(plan.dialogues, beginning: cursor)
        clock = plan.entry.start.microseconds
    }

    /// Makes this the next visit; false where the last one consumed nothing, or nothing is left that it had enabled.
    mutating func beginNextVisit() -> Bool {
        let isWorthwhile =
            hasConsumed
            && plan.routes.indices.contains { place in
                progress[place].wasEnabled && plan.routes[place].canBeLeft
                    && progress[place].consumed < plan.routes[place].total
            }
        (isConnected, isOver, hasConsumed, isReleased, procedure, silences) = (false, false, false, false, -1, 0)
        (answers, earlierVisit, answersLess) = ([], lastDelivered, false)
        for place in progress.indices { progress[place].isEnabled = false }
        dialogues.end()
        return isWorthwhile
    }

    /// What no visit has consumed.
    var unread: [ReplayWarning] {
        plan.unread(consumed: progress.map(\.consumed), unanswered: dialogues.unanswered)
    }

    // MARK: the reader's calls

    mutating func connect() throws(GATTError) -> Instant {
        guard !isOver else { throw .disconnected }
        isConnected = true
        return earlierVisit.map { Instant(microseconds: $0) } ?? plan.entry.start
    }

    mutating func disconnect() {
        (isConnected, isOver) = (false, true)
    }

    /// The place of a characteristic of the connected peripheral.
    private func place(_ characteristic: Characteristic) throws(GATTError) -> Int {
        guard isConnected else { throw .disconnected }
        guard let place = plan.routes.firstIndex(where: { $0.handle == characteristic.valueHandle }),
            plan.routes[place].uuid == characteristic.uuid
        else { throw .noSuchCharacteristic(characteristic.uuid) }
        return place
    }

    func read(_ characteristic: Characteristic) throws(GATTError) -> CharacteristicValue {
        let route = plan.routes[try place(characteristic)]
        guard let value = plan.entry.conversation.reads[route.handle] else { throw .attribute(0x02) }
        return CharacteristicValue(uuid: route.uuid, octets: value.octets, receivedAt: value.receivedAt)
    }

    mutating func setNotifying(_ isEnabled: Bool, _ characteristic: Characteristic) throws {
        let place = try place(characteristic)
        progress[place].isEnabled = isEnabled
        guard isEnabled else { return }
        progress[place].wasEnabled = true
        isReleased = true
        if progress[place].hasSkipped { try rewind() }
    }

    /// Goes back for values that were stepped over; each characteristic's consumed ones are not delivered again.
    private mutating func rewind() throws {
        cursor = try ConnectionCursor(plan.entry, readSize: readSize)
        (pending, recordedRequest) = (-1, nil)
        dialogues.rewind()
        for place in progress.indices { (progress[place].seen, progress[place].hasSkipped) = (0, false) }
    }

    mutating func write(_ octets: [UInt8], to characteristic: Characteristic) throws {
        let place = try place(characteristic)
        let route = plan.routes[place]
        // What a meter would do with other characteristics is not in the capture, but that it took them is no answer.
        guard route.isControlPoint else {
            let (plan, readSize) = (plan, readSize)
            return try dialogues.ask(octets, of: route.handle) { () throws(CaptureError) in
                try ConnectionCursor(plan.entry, readSize: readSize)
            }
        }
        guard progress[place].isEnabled else { throw GATTError.attribute(0xFD) }
        guard let operation = octets.first else { throw GATTError.attribute(0x0D) }
        switch operation {
        case 0x01:
            guard procedure < 0 else { throw GATTError.attribute(0xFE) }
            let gate = Int(route.handle)
            if zip(plan.routes, progress).contains(where: {
                ($0.gate == gate || Int($0.handle) == gate) && $1.hasSkipped
            }) {
                try rewind()
            }
            let selectsOne = octets.count > 1 && (octets[1] == 5 || octets[1] == 6)
            if try selectsOne && nextRecordedRequest(to: place) != octets { return refuse(operation, route) }
            (procedure, request, isReleased) = (gate, octets, true)
        case 0x03:
            procedure = -1
            answer(octets, route)
        default: answer(octets, route)
        }
    }

    private mutating func answer(_ request: [UInt8], _ route: ReplayPlan.Route) {
        let known = plan.entry.conversation.exchanges.first { $0.handle == route.handle && $0.request == request }
        guard let known else { return refuse(request[0], route) }
        answers.append(
            CharacteristicValue(uuid: route.uuid, octets: known.answer.octets, receivedAt: known.answer.receivedAt))
    }

    /// Answers "op code not supported" (Glucose Service, 3.4.2): the capture does not hold what was asked.
    private mutating func refuse(_ operation: UInt8, _ route: ReplayPlan.Route) {
        answers.append(
            CharacteristicValue(
                uuid: route.uuid, octets: [0x06, 0x00, operation, 0x02], receivedAt: Instant(microseconds: clock)))
    }

    /// The first recorded report request whose answer was not delivered.
    private func nextRecordedRequest(to place: Int) throws -> [UInt8]? {
        let handle = plan.routes[place].handle
        if let recordedRequest, recordedRequest.handle == handle { return recordedRequest.octets }
        var (ahead, seen) = (cursor, progress[place].seen)
        while true {
            switch try ahead.advance() {
            case .write where ahead.handle == handle && ahead.octet(0) == 1 && seen >= progress[place].consumed:
                return ahead.octets()
            case .value where ahead.handle == handle && ahead.isReportAnswer: seen += 1
            case .end: return nil
            default: continue
            }
        }
    }

    // MARK: values

    mutating func nextValues(within timeout: Duration) throws -> ValueBurst {
        guard isConnected else { return .disconnected }
        if !answers.isEmpty {
            defer { answers = [] }
            return .values(answers)
        }
        var values = try nextAnswers()
        if !values.isEmpty { return .values(values) }
        let patience = Self.microseconds(timeout)
        while true {
            guard let place = try next() else {
                return values.isEmpty
                    ? wait(patience, until: plan.entry.end.microseconds, thenGone: true) : .values(values)
            }
            let time = cursor.time
            if values.isEmpty {
                // What the recorded host did before its own request was ours to do, not the peer's silence; and a peer
                // that was left comes again when it has something to say.
                if isReleased {
                    clock = max(clock, earlierVisit == nil || hasConsumed ? min(cursor.hostTime, time) : time)
                }
                isReleased = false
                if time - clock > patience, silences < Self.mostSilences {
                    return wait(patience, until: time, thenGone: false)
                }
                values.reserveCapacity(min(Self.longestBurst, plan.routes[place].total - progress[place].consumed))
            } else if values.count == Self.longestBurst || time - clock > min(Self.closeness, patience) {
                return .values(values)
            }
            values.append(
                CharacteristicValue(
                    uuid: plan.routes[place].uuid, octets: cursor.octets(), receivedAt: Instant(microseconds: time)))
            (clock, pending, silences, hasConsumed) = (time, -1, 0, true)
            lastDelivered = time
            progress[place].consumed += 1
            if plan.routes[place].isUnasked { answersLess = true }
            if plan.routes[place].isControlPoint {
                if !holdsWhatWasAsked(at: plan.routes[place].handle) { answersLess = true }
                (procedure, recordedRequest) = (-1, nil)
                return .values(values)
            }
        }
    }

    /// Whether the recorded request that is answered at the cursor is the reader's own, or one for all records.
    private func holdsWhatWasAsked(at controlPoint: UInt16) -> Bool {
        guard let recordedRequest, recordedRequest.handle == controlPoint else { return false }
        return recordedRequest.octets == request || recordedRequest.octets == Self.reportAll
    }

    /// What comes now of the answers to the reader's questions.
    private mutating func nextAnswers() throws -> [CharacteristicValue] {
        var values: [CharacteristicValue] = []
        while values.count < Self.longestBurst, let answer = try dialogues.next() {
            guard let place = route(of: answer.handle), progress[place].isEnabled else { continue }
            let time = Instant(microseconds: answer.time)
            values.append(CharacteristicValue(uuid: plan.routes[place].uuid, octets: answer.octets, receivedAt: time))
            (clock, silences) = (max(clock, answer.time), 0)
        }
        return values
    }

    private mutating func wait(_ patience: Int64, until time: Int64, thenGone: Bool) -> ValueBurst {
        if thenGone, time - clock <= patience || silences >= Self.mostSilences {
            disconnect()
            return .disconnected
        }
        silences += 1
        clock += patience
        return .silence
    }

    private static func microseconds(_ duration: Duration) -> Int64 {
        let (seconds, attoseconds) = duration.components
        // A thousand years are as good as any longer time.
        return max(0, min(seconds, 31_556_952_000)) * 1_000_000 + max(0, attoseconds) / 1_000_000_000_000
    }

    /// Brings the cursor to the next value that may be delivered now; nil where there is none to the end.
    private mutating func next() throws -> Int? {
        guard progress.contains(where: \.isEnabled) else { return nil }
        while true {
            if pending < 0, try !step() { return nil }
            let route = plan.routes[pending]
            let isOpen =
                route.isControlPoint ? procedure == Int(route.handle) : route.gate < 0 || procedure == route.gate
            if isOpen, progress[pending].isEnabled {
                let refused = route.isControlPoint && cursor.isRefusal ? recordedRequest?.octets : nil
                guard let refused, refused != request else { return pending }
                // What the reader did not ask is not refused to it.
                progress[pending].consumed += 1
            } else {
                progress[pending].hasSkipped = true
            }
            if route.isControlPoint { recordedRequest = nil }
            pending = -1
        }
    }

    /// Moves the cursor to the next value of a known characteristic that was not consumed; false at the end.
    private mutating func step() throws -> Bool {
        while true {
            switch try cursor.advance() {
            case .end: return false
            case .write:
                guard let place = route(of: cursor.handle) else { continue }
                if plan.routes[place].isInDialogue { dialogues.pass(cursor.handle) }
                if plan.routes[place].isControlPoint, cursor.octet(0) == 1 {
                    recordedRequest = (cursor.handle, cursor.octets())
                }
            case .value:
                guard let place = route(of: cursor.handle) else { continue }
                if plan.routes[place].isInDialogue, dialogues.isAnswer(cursor.handle) { continue }
                // Other answers of a control point belong to requests that are answered from the index.
                if plan.routes[place].isControlPoint, !cursor.isReportAnswer { continue }
                progress[place].seen += 1
                if progress[place].seen <= progress[place].consumed {
                    if plan.routes[place].isControlPoint { recordedRequest = nil }
                    continue
                }
                pending = place
                return true
            }
        }
    }

    @inline(__always)
    private mutating func route(of handle: UInt16) -> Int? {
        if lastRoute < plan.routes.count, plan.routes[lastRoute].handle == handle { return lastRoute }
        guard let place = plan.routes.firstIndex(where: { $0.handle == handle }) else { return nil }
        lastRoute = place
        return place
    }
}
