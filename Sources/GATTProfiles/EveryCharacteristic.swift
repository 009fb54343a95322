import HealthReadings

extension StandardFrameDecoder {
    /// Reads octets as a value of each known characteristic in turn; returns the characteristics that accept them.
    ///
    /// For finding out what an unnamed capture holds, and for tests: no octets of any length may trap.
    public func characteristics(accepting octets: [UInt8]) -> [UInt16] {
        Self.knownCharacteristics.filter { characteristic in
            switch decode(characteristic: characteristic, octets: octets.span.bytes) {
            case .record, .glucoseContext, .sensor, .entry, .imported, .withdrawal, .figures: true
            case .malformed: false
            case .nothing: (try? describe(characteristic: characteristic, octets: octets)) != nil
            }
        }
    }
}
