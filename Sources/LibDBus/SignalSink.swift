/// A subscription at the event loop: decodes what matches, and hands it over when the loop says so.
class SignalSink {
    let number: UInt64
    let rule: SignalRule
    /// The match rules that are on the bus for it.
    var matchRules: [String] = []
    /// The well-known name it follows.
    let followed: String?

    init(number: UInt64, rule: SignalRule, followed: String?) {
        (self.number, self.rule, self.followed) = (number, rule, followed)
    }

    /// Takes a signal that matches.
    func receive(_ signal: borrowing DBusSignal) {}

    /// Hands over what was taken.
    ///
    /// - Returns: whether there was something.
    @discardableResult
    func flush() -> Bool { false }

    /// Nothing more will come.
    func finish(_ error: DBusError) {}
}

/// A subscription whose signals are decoded to a type.
final class DecodingSink<Signal: Sendable>: SignalSink {
    private let decode: @Sendable (borrowing DBusSignal) -> Signal?
    private let buffer: SignalBuffer<Signal>
    private var burst: [Signal] = []

    init(
        number: UInt64, rule: SignalRule, followed: String?, buffer: SignalBuffer<Signal>,
        decode: @escaping @Sendable (borrowing DBusSignal) -> Signal?
    ) {
        (self.buffer, self.decode) = (buffer, decode)
        super.init(number: number, rule: rule, followed: followed)
    }

    override func receive(_ signal: borrowing DBusSignal) {
        if let element = decode(signal) { burst.append(element) }
    }

    @discardableResult
    override func flush() -> Bool {
        if burst.isEmpty { return false }
        var full: [Signal] = []
        swap(&full, &burst)
        buffer.put(full)
        return true
    }

    override func finish(_ error: DBusError) {
        flush()
        buffer.finish(error)
    }
}
