import NIOCore

/// What a server allows one connection, and how many connections it allows.
package struct ServerLimits: Sendable {
    /// How many connections there may be.
    package var connections = 512
    /// How many of them are kept for this machine.
    package var reserved = 64
    /// How many of them one network may hold at most. The fewer are free, the fewer it may.
    package var connectionsOfOne = 64
    /// How long a connection may take until a request's header fields are complete, the TLS handshake included.
    package var idle: TimeAmount = .seconds(20)
    /// How long a request may take from its header fields to the end of its body, however steadily it trickles in.
    package var body: TimeAmount = .seconds(15)
    /// How long an answer may take to be taken; streams have ``stall`` alone.
    package var answer: TimeAmount = .seconds(60)
    /// How long a client may take nothing of what waits for it.
    package var stall: TimeAmount = .seconds(30)
    /// How long a connection stays open behind its last answer, so that a client that still sends can read it.
    package var linger: TimeAmount = .seconds(2)
    /// How many bytes a request's header fields may have.
    package var headerOctets = 16 << 10
    /// How many bytes of a body are handed on.
    package var bodyOctets = 64 << 10
    /// How many bytes a request may have as they come over the network, with the framing of its chunks.
    package var requestOctets = 4 << 20
    /// How many requests may wait for their answer on one connection.
    package var pipelined = 16

    package init() {}
}
