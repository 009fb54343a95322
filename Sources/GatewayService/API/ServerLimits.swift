import NIOCore

/// What a server allows one connection, and how many connections it allows.
struct ServerLimits: Sendable {
    /// How many connections there may be.
    var connections = 512
    /// How many of them are kept for this machine.
    var reserved = 64
    /// How long a connection may take until a request's header fields are complete, the TLS handshake included.
    var idle: TimeAmount = .seconds(20)
    /// How long a request may take from its header fields to the end of its body, however steadily it trickles in.
    var body: TimeAmount = .seconds(15)
    /// How long an answer may take to be taken; streams have ``stall`` alone.
    var answer: TimeAmount = .seconds(60)
    /// How long a client may take nothing of what waits for it.
    var stall: TimeAmount = .seconds(30)
    /// How long a connection stays open behind its last answer, so that a client that still sends can read it.
    var linger: TimeAmount = .seconds(2)
    /// How many bytes a request's header fields may have.
    var headerOctets = 16 << 10
    /// How many bytes of a body are handed on.
    var bodyOctets = 64 << 10
    /// How many bytes a request may have as they come over the network, with the framing of its chunks.
    var requestOctets = 4 << 20
    /// How many requests may wait for their answer on one connection.
    var pipelined = 16

    /// The control socket's: a command may wait for a person who reads its output page by page.
    static let control: ServerLimits = {
        var limits = ServerLimits()
        limits.stall = .minutes(5)
        // A command line has 2 MiB at most on Linux, and JSON adds some octets to each of its words.
        (limits.bodyOctets, limits.requestOctets) = (8 << 20, 16 << 20)
        return limits
    }()
}
