/// What a peer answers by protocols of makers' own, where what was written decides the answer.
///
/// The answer to a question is what the peer sent between it and the recorded host's next one to the same service. A
/// question that was asked several times is answered as it was the next time, and behind the last as the first. Nothing
/// is kept of a service but two places in the capture.
struct ReplayDialogues {
    typealias Answer = (handle: UInt16, octets: [UInt8], time: Int64)

    private var services: [ReplayDialogue]
    /// Those in which the recorded host has asked before the place that is replayed: what follows there answers it.
    private var begun: Set<Int> = []
    /// How many questions the capture holds no answer to, by the handle they were written to.
    private(set) var unanswered: [UInt16: Int] = [:]

    /// - Parameter services: the handles of each service's values.
    init(_ services: [Set<UInt16>], beginning: ConnectionCursor) {
        self.services = services.map { ReplayDialogue(handles: $0, asked: beginning) }
    }

    private func place(of handle: UInt16) -> Int? { services.firstIndex { $0.handles.contains(handle) } }

    /// Takes what the reader writes; what is no question to one of the services is none here.
    mutating func ask(
        _ octets: [UInt8], of handle: UInt16, beginning: () throws(CaptureError) -> ConnectionCursor
    ) throws(CaptureError) {
        guard let place = place(of: handle) else { return }
        if try !services[place].ask(octets, of: handle, beginning: beginning) { unanswered[handle, default: 0] += 1 }
    }

    /// The next value that answers the reader; nil where none comes before it asks again.
    mutating func next() throws(CaptureError) -> Answer? {
        for place in services.indices {
            if let answer = try services[place].next() { return answer }
        }
        return nil
    }

    /// The reader has left: what it did not take is no answer to anything.
    mutating func end() { for place in services.indices { services[place].answer = nil } }

    // MARK: what is replayed in the capture's order

    /// A write of the recorded host is passed.
    mutating func pass(_ handle: UInt16) { if let place = place(of: handle) { begun.insert(place) } }

    /// Whether a value that is met now answers a question of the recorded host.
    func isAnswer(_ handle: UInt16) -> Bool { place(of: handle).map(begun.contains) ?? false }

    /// The replay goes on from the beginning.
    mutating func rewind() { begun = [] }
}

/// The dialogue with one service.
private struct ReplayDialogue {
    let handles: Set<UInt16>
    /// Behind the question that was found last.
    var asked: ConnectionCursor
    /// Its answer, where more of it may come.
    var answer: ConnectionCursor?

    /// Looks for a question; false where the capture does not hold it.
    mutating func ask(
        _ octets: [UInt8], of handle: UInt16, beginning: () throws(CaptureError) -> ConnectionCursor
    ) throws(CaptureError) -> Bool {
        answer = try Self.find(octets, of: handle, from: asked)
        if answer == nil { answer = try Self.find(octets, of: handle, from: try beginning()) }
        guard let answer else { return false }
        asked = answer
        return true
    }

    private static func find(
        _ octets: [UInt8], of handle: UInt16, from start: ConnectionCursor
    ) throws(CaptureError) -> ConnectionCursor? {
        var cursor = start
        while true {
            switch try cursor.advance() {
            case .end: return nil
            case .value: continue
            case .write: if cursor.handle == handle, cursor.octets() == octets { return cursor }
            }
        }
    }

    mutating func next() throws(CaptureError) -> ReplayDialogues.Answer? {
        guard var cursor = answer else { return nil }
        while true {
            switch try cursor.advance() {
            case .value where handles.contains(cursor.handle):
                answer = cursor
                return (cursor.handle, cursor.octets(), cursor.time)
            case .write where handles.contains(cursor.handle), .end:
                answer = nil
                return nil
            case .value, .write: continue
            }
        }
    }
}
