/// What a recording is of.
public struct MonitorSelection: Sendable, Hashable {
    /// The adapter's index.
    public var adapter: UInt16
    /// The one device to keep; nil for all.
    public var peer: PeerAddress?
    /// Handles of the peer's connections that exist already.
    public var peerHandles: [UInt16]
    /// Whether keys stay in.
    public var keepsKeys: Bool

    /// Makes a selection.
    public init(adapter: UInt16, peer: PeerAddress? = nil, peerHandles: [UInt16] = [], keepsKeys: Bool = false) {
        (self.adapter, self.peer, self.peerHandles, self.keepsKeys) = (adapter, peer, peerHandles, keepsKeys)
    }
}

/// What a recorder noticed that is not in the file.
public enum MonitorNote: Sendable, Hashable {
    /// The adapter was unplugged, or its service ended.
    case adapterGone
    /// The adapter is there again.
    case adapterBack
}

/// Turns messages of the HCI monitor into a btsnoop stream (datalink 2001) without keys, in bounded memory.
public struct MonitorRecorder: Sendable {
    private let selection: MonitorSelection
    /// Follows fragments also where keys stay in.
    private var eraser = KeyEraser()
    private var filter: PeerFilter?
    private var queue: RecordQueue
    private var kernelLost: UInt32 = 0
    /// Messages were lost somewhere among those the kernel still holds.
    private var isIncomplete = false
    private var isAdapterThere = true

    /// How many messages were recorded.
    public private(set) var packets: UInt64 = 0
    /// How many messages were lost: by the kernel, here because the reader was slow, and fragments that continue a lost one.
    public private(set) var dropped: UInt32 = 0

    /// How many octets wait for a slow reader at most, where nothing else is said.
    public static let standardBacklog = 4 * 1024 * 1024

    /// Begins a stream; its head waits to be taken.
    public init(_ selection: MonitorSelection, backlog: Int = standardBacklog) {
        self.selection = selection
        filter = selection.peer.map { PeerFilter(peer: $0, handles: selection.peerHandles) }
        queue = RecordQueue(most: max(backlog, BTSnoop.headerLength))
        _ = queue.append(BTSnoop.header(datalink: BTSnoop.linuxMonitor))
    }

    /// Takes the next message.
    /// - Parameters:
    ///   - message: the message as the kernel's monitor channel sends it.
    ///   - microseconds: the kernel's time, since the POSIX epoch.
    ///   - lost: how many messages the kernel has lost until now.
    /// - Returns: what a person should be told.
    public mutating func take(_ message: MonitorMessage, at microseconds: Int64, lost: UInt32 = 0) -> MonitorNote? {
        if lost != kernelLost {
            dropped &+= lost &- kernelLost
            kernelLost = lost
            isIncomplete = true
        }
        // Which of the waiting messages the lost ones stood between is not known: a fragment could seem to continue what
        // it does not, and a key pass for a value.
        if isIncomplete { eraser.forgetFragments() }
        guard message.adapter == selection.adapter else { return nil }
        if message.opcode == .managementEvent {
            keep(filter?.take(message, at: microseconds) ?? [])
            return nil
        }
        guard MonitorOpcode.recorded.contains(message.opcode) else { return nil }
        let note = presence(message.opcode)
        guard let safe = eraser.erase(message) else { return note }
        let recorded = selection.keepsKeys ? message : safe
        let kept = filter?.take(recorded, at: microseconds) ?? [TimedMessage(recorded, at: microseconds)]
        // Counts as lost, so that a reader of the file does not take it for the rest of another packet.
        if eraser.isAdrift, !kept.isEmpty { dropped &+= 1 }
        keep(kept)
        return note
    }

    /// Says that the kernel holds no more messages for now.
    public mutating func drained() { isIncomplete = false }

    /// Counts a datagram that was no message.
    public mutating func skipMalformed() { dropped &+= 1 }

    /// Whether nothing waits for the reader.
    public var isEmpty: Bool { queue.isEmpty }

    /// Gives the reader what waits; `body` says how many octets it took.
    @discardableResult
    public mutating func write(_ body: (UnsafeRawBufferPointer) -> Int) -> Int { queue.take(body) }

    private mutating func presence(_ opcode: MonitorOpcode) -> MonitorNote? {
        switch opcode {
        case .deletedIndex:
            isAdapterThere = false
            return .adapterGone
        case .newIndex where !isAdapterThere:
            isAdapterThere = true
            return .adapterBack
        default: return nil
        }
    }

    private mutating func keep(_ messages: [TimedMessage]) {
        for timed in messages {
            let message = timed.message
            let length = UInt32(message.octets.count)
            let head = BTSnoop.recordHead(
                original: length, included: length,
                flags: UInt32(message.adapter) << 16 | UInt32(message.opcode.rawValue), drops: dropped,
                microseconds: timed.microseconds)
            if queue.append(head, message.octets) { packets += 1 } else { dropped &+= 1 }
        }
    }
}
