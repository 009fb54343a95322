import Glibc
import ISO15693Reader
import Synchronization

/// A PN532 with the ISO 15693 extension of the PN532Killer on a pseudo-terminal, as an unmodified libnfc opens it.
///
/// Its behaviour can be changed while it runs. It lives on a thread of its own.
public final class EmulatedReader: Sendable {
    /// What is at the reader, and what is wrong with it. Exchanges are counted from 1, anew at every change.
    public struct Behaviour: Sendable {
        /// The tag in the field.
        public var tag: EmulatedTag?
        /// A PN532 as it is sold: it does not know ISO 15693.
        public var isPlain = false
        /// Whether it acknowledges commands.
        public var acknowledges = true
        /// How long it takes over an exchange after it has acknowledged it, in milliseconds.
        public var delay: UInt32 = 0
        /// The status octet of an exchange that was answered.
        public var status: UInt8 = 0
        /// Exchanges whose answers come with a wrong checksum.
        public var garbledExchanges: Set<Int> = []
        /// Exchanges that are acknowledged and never answered.
        public var hangingExchanges: Set<Int> = []
        /// It is unplugged at this exchange.
        public var vanishesAt: Int?

        /// A reader that works.
        /// Plugs a reader in.
        public init(tag: EmulatedTag? = nil) { self.tag = tag }
    }

    /// A link to the pseudo-terminal; it stays the same when the reader is plugged in again.
    public let path: String
    private let line: SerialLine

    /// The setting that names it.
    public var setting: String { "pn532_uart:\(path):115200" }

    /// It cannot be had.
    public struct Failure: Error {
        /// Why.
        public var what: String
    }

    /// - Throws: ``Failure`` where the system gives no terminal.
    public init(tag: EmulatedTag? = nil) throws {
        var template = Array("/tmp/healthrelay-reader.XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw Failure(what: "no folder") }
        path = String(decoding: template.dropLast().map { UInt8(truncatingIfNeeded: $0) }, as: UTF8.self) + "/port"
        line = try SerialLine(Behaviour(tag: tag), link: path)
        try plugIn()
    }

    deinit {
        line.end()
        unlink(path)
        rmdir(String(path.dropLast("/port".count)))
    }

    /// Changes what it does; a new count of exchanges begins.
    public func change(_ body: (inout Behaviour) -> Void) {
        line.state.withLock { state in
            body(&state.behaviour)
            state.exchanges = 0
        }
    }

    /// The ISO 15693 frames it was given, without CRC.
    public var frames: [[UInt8]] { line.state.withLock { $0.frames } }

    /// Forgets the frames it was given.
    public func forgetFrames() { line.state.withLock { $0.frames = [] } }

    /// Exchanges since the last change.
    public var exchanges: Int { line.state.withLock { $0.exchanges } }

    /// Pulls it out.
    public func unplug() { _ = line.plug(nil) }

    /// Plugs it in again, after it was pulled out.
    public func plugIn() throws {
        let terminal = try PseudoTerminal()
        guard line.plug(terminal) else { throw Failure(what: "no link") }
    }
}
