public import HCIMonitor

extension KeyEraser {
    /// Takes the next record of a capture, in the order of the capture, whatever the file's format.
    /// - Returns: the record with zeros where keys were; nil where nothing of it may be kept.
    public mutating func erase(_ record: CaptureRecord) -> CaptureRecord? {
        let opcode: MonitorOpcode
        switch record.kind {
        case .command: opcode = .command
        case .event: opcode = .event
        case .aclData: opcode = record.direction == .sent ? .aclSent : .aclReceived
        // No keys are in sound.
        case .synchronousData, .isochronousData: return record
        case .monitor(let number): opcode = MonitorOpcode(rawValue: number)
        case .unknown: return nil
        }
        // Where a file does not say which way a fragment went, what it continues is not known.
        if record.kind == .aclData, record.direction == nil { forgetFragments() }
        guard let safe = erase(MonitorMessage(opcode, adapter: record.adapter, record.octets)) else { return nil }
        var record = record
        record.octets = safe.octets
        return record
    }
}
