/// The frames that may go to a tag: those of ISO/IEC 15693-3, and of the sensor's chip, that read and nothing else.
///
/// Written a second time, apart from the program that asks: what is not on this list is not sent, whoever asks.
enum ReadOnlyList {
    /// Flags, command and parameters, without CRC; unaddressed, at the high data rate.
    static func permits(_ frame: [UInt8]) -> Bool {
        guard frame.count >= 2 else { return false }
        return switch (frame[0], frame[1], frame.count) {
        case (0x26, 0x01, 3): frame[2] == 0  // inventory, without a mask
        case (0x02, 0x20, 3): true  // read a single block
        case (0x02, 0x23, 4): true  // read multiple blocks
        case (0x02, 0x2B, 2): true  // system information
        // Patch information, of the manufacturers Texas Instruments and Abbott.
        case (0x02, 0xA1, 3): frame[2] == 0x07 || frame[2] == 0x7A
        default: false
        }
    }
}
