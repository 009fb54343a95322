/// What a peer answers by a protocol of its maker's own, where what was written decides the answer.
///
/// The answer to a question is what the peer sent between it and the recorded host's next one. A question that was asked
/// several times is answered as it was the next time, and behind the last as the first. Nothing is kept but two places
/// in the capture.
struct ReplayDialogue {
    /// The handles of the service's values.
    private let handles: Set<UInt16>
    /// Behind the question that was found last.
    private var asked: ConnectionCursor
    /// Its answer, where more of it may come.
    private var answer: ConnectionCursor?

    init(_ handles: Set<UInt16>, beginning: ConnectionCursor) { (self.handles, asked) = (handles, beginning) }

    /// The reader has left: what it did not take is no answer to anything.
    mutating func end() { answer = nil }

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

    /// The next value of the answer; nil where no more comes before the recorded host's next question.
    mutating func next() throws(CaptureError) -> (handle: UInt16, octets: [UInt8], time: Int64)? {
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
