/// The numbers with which the factory has calibrated a sensor.
///
/// Their names are those of the public projects that found them (DiaBLE, LibreMonitor); the vendor's are not known.
public struct FactoryCalibration: Sendable, Hashable {
    /// 0 … 7; takes no part in the estimate.
    public var i1: Int
    /// 1 … 1023, or 0 in a sensor without calibration.
    public var i2: Int
    /// -255 … 255.
    public var i3: Int
    /// 0 … 16383.
    public var i4: Int
    /// 0 … 16380, in steps of 4; takes no part in the estimate.
    public var i5: Int
    /// 0 … 16380, in steps of 4.
    public var i6: Int

    /// Makes a calibration.
    public init(i1: Int, i2: Int, i3: Int, i4: Int, i5: Int, i6: Int) {
        self.i1 = i1
        self.i2 = i2
        self.i3 = i3
        self.i4 = i4
        self.i5 = i5
        self.i6 = i6
    }

    /// Takes the bits out of a whole memory: 13 from octet 2 on, 64 from octet 336 on, lowest first.
    init(memory octets: [UInt8]) {
        let low = Int(octets[2]) | Int(octets[3]) << 8
        var high: UInt64 = 0
        for place in 0..<8 { high |= UInt64(octets[336 + place]) << UInt64(8 * place) }
        func bits(_ first: UInt64, _ count: UInt64) -> Int { Int(high >> first & (1 << count - 1)) }
        i1 = low & 0x7
        i2 = low >> 3 & 0x3FF
        i3 = bits(33, 1) == 0 ? bits(0, 8) : -bits(0, 8)
        i4 = bits(8, 14)
        i5 = bits(40, 12) << 2
        i6 = bits(52, 12) << 2
    }
}
