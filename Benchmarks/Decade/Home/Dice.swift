/// Numbers that look random and are the same each time: SplitMix64.
struct Dice {
    private var state: UInt64

    /// Numbers of their own for each day and each device of a seed.
    init(seed: UInt64, day: Int, device: UInt64) {
        state = seed &* 0x9E37_79B9_7F4A_7C15 ^ UInt64(day) &* 0xD1B5_4A32_D192_ED03 ^ device &* 0x8CB9_2BA7_2F3D_8DD7
    }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ z >> 30) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ z >> 27) &* 0x94D0_49BB_1331_11EB
        return z ^ z >> 31
    }

    /// A number below a limit.
    mutating func roll(_ limit: Int) -> Int { Int(next() % UInt64(limit)) }
}
