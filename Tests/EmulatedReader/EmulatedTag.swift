import ISO15693Reader

/// An ISO 15693 tag with a memory of eight-octet blocks, as a FreeStyle Libre sensor is to a reader, and what may be
/// wrong with it.
public struct EmulatedTag: Sendable {
    /// Its memory.
    public var memory: [UInt8]
    /// Its UID, the highest octet first.
    public var uid: [UInt8]
    /// What it says of its model.
    public var patchInformation: [UInt8]
    /// The most blocks it gives at a time.
    public var mostBlocks = 3

    /// Blocks it never answers for.
    public var silentBlocks: Set<Int> = []
    /// Blocks whose answers come with a wrong CRC.
    public var damagedBlocks: Set<Int> = []
    /// Blocks it refuses, with its error code.
    public var refusedBlocks: [Int: UInt8] = [:]
    /// Its answers to inventories come with a wrong CRC, but for each third one.
    public var damagesInventories = false
    /// It is taken away after so many answers.
    public var leavesAfter: Int?

    private var answers = 0
    private var inventories = 0

    /// A tag that answers everything.
    public init(
        memory: [UInt8], uid: [UInt8] = [0xE0, 0x07, 0xA0, 0x00, 0x00, 0x25, 0x90, 0x5E],
        patchInformation: [UInt8] = [0xDF, 0x00, 0x00, 0x01, 0x01, 0x02]
    ) {
        (self.memory, self.uid, self.patchInformation) = (memory, uid, patchInformation)
    }

    /// A tag whose memory tells where each octet lies.
    public static let counting = EmulatedTag(memory: (0..<344).map { UInt8(truncatingIfNeeded: $0 * 7 + $0 / 256) })

    /// What it answers, with flags and CRC; nil where it does not.
    public mutating func answer(to frame: [UInt8]) -> [UInt8]? {
        if let leavesAfter, answers >= leavesAfter { return nil }
        guard let answer = content(of: frame) else { return nil }
        answers += 1
        var crc = ISO15693CRC.octets(of: answer)
        if let blocks = blocks(of: frame), blocks.contains(where: damagedBlocks.contains) { crc[0] ^= 0x55 }
        if frame[0] & 0x04 != 0 {
            inventories += 1
            if damagesInventories, !inventories.isMultiple(of: 3) { crc[0] ^= 0x55 }
        }
        return answer + crc
    }

    private func content(of frame: [UInt8]) -> [UInt8]? {
        guard frame.count >= 2 else { return nil }
        let isInventory = frame[0] & 0x04 != 0
        switch (frame[1], isInventory) {
        case (0x01, true): return [0, 0] + uid.reversed()
        case (_, true): return nil
        case (0x2B, false): return [0, 0x0F] + uid.reversed() + [0, 0, UInt8(memory.count / 8 - 1), 7, 0]
        case (0xA1, false): return frame.dropFirst(2).first == uid[1] ? [0] + patchInformation : nil
        case (0x20, false), (0x23, false):
            guard let blocks = blocks(of: frame) else { return [1, 0x0F] }
            guard blocks.count <= mostBlocks, blocks.upperBound <= memory.count / 8 else { return [1, 0x10] }
            if let code = blocks.lazy.compactMap({ refusedBlocks[$0] }).first { return [1, code] }
            if blocks.contains(where: silentBlocks.contains) { return nil }
            return [0] + memory[blocks.lowerBound * 8..<blocks.upperBound * 8]
        default: return [1, 0x01]
        }
    }

    private func blocks(of frame: [UInt8]) -> Range<Int>? {
        switch (frame.count > 1 ? frame[1] : 0, frame.count) {
        case (0x20, 3): Int(frame[2])..<Int(frame[2]) + 1
        case (0x23, 4): Int(frame[2])..<Int(frame[2]) + Int(frame[3]) + 1
        default: nil
        }
    }
}
