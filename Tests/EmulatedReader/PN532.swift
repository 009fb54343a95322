import ISO15693Reader

/// The chip's commands as far as libnfc uses them (UM0701-02, chapter 7), and those of the PN532Killer's documentation.
struct PN532 {
    /// Registers; 6302 and 6303 say in their highest bit whether the chip adds and checks CRCs.
    private var registers: [UInt16: UInt8] = [0x6302: 0x80, 0x6303: 0x80]
    private var isFieldOn = false

    /// The ISO 15693 frame in an InCommunicateThru, without its CRC.
    func frame(of command: [UInt8]) -> [UInt8]? {
        guard command.count >= 4, command[0] == 0x42, command[1] == 0x80, command[2] == 0x00 else { return nil }
        let octets = Array(command.dropFirst(3))
        guard registers[0x6302, default: 0] & 0x80 == 0 else { return octets }
        let frame = octets.dropLast(2)
        return ISO15693CRC.octets(of: frame) == Array(octets.suffix(2)) ? Array(frame) : nil
    }

    /// The data of its answer; nil where it is an error frame.
    mutating func answer(to command: [UInt8], _ behaviour: inout EmulatedReader.Behaviour) -> [UInt8]? {
        let parameters = Array(command.dropFirst())
        switch command[0] {
        case 0x00: return parameters  // diagnose: the line gives back what it is given
        case 0x02: return [0x32, 0x01, 0x06, 0x07]  // firmware
        case 0x04: return [0x00, 0x00, 0x00, 0x80]  // general status
        case 0x06: return pairs(parameters, of: 2).map { registers[$0[0], default: 0] }
        case 0x08:
            for triple in stride(from: 0, to: parameters.count - 2, by: 3) {
                registers[UInt16(parameters[triple]) << 8 | UInt16(parameters[triple + 1])] = parameters[triple + 2]
            }
            return []
        case 0x12, 0x14: return []  // parameters, security module
        case 0x16, 0x44, 0x52: return [0x00]  // power down, deselect, release
        case 0x32:
            if parameters.first == 0x01, parameters.count > 1 { isFieldOn = parameters[1] & 1 == 1 }
            return []
        case 0x42: return exchange(command, &behaviour)
        case 0x4A: return list(parameters, &behaviour)
        case 0xAA: return behaviour.isPlain ? nil : [0x00]
        default: return nil
        }
    }

    private mutating func exchange(_ command: [UInt8], _ behaviour: inout EmulatedReader.Behaviour) -> [UInt8] {
        let timedOut: [UInt8] = [0x01]
        guard !behaviour.isPlain, isFieldOn, let frame = frame(of: command),
            let answer = behaviour.tag?.answer(to: frame)
        else { return timedOut }
        let isCRCTakenOff = registers[0x6303, default: 0] & 0x80 != 0
        return [behaviour.status] + (isCRCTakenOff ? Array(answer.dropLast(2)) : answer)
    }

    private mutating func list(_ parameters: [UInt8], _ behaviour: inout EmulatedReader.Behaviour) -> [UInt8]? {
        guard parameters.count >= 2 else { return nil }
        // Of no other kind of tag is there one.
        guard parameters[1] == 0x05 else { return parameters[1] < 0x05 ? [0x00] : nil }
        guard !behaviour.isPlain else { return nil }
        return (behaviour.tag?.answer(to: [0x26, 0x01, 0x00])).map { [0x01, 0x01] + $0[2..<10] } ?? [0x00]
    }

    private func pairs(_ octets: [UInt8], of size: Int) -> [[UInt16]] {
        stride(from: 0, to: octets.count - 1, by: size).map { [UInt16(octets[$0]) << 8 | UInt16(octets[$0 + 1])] }
    }
}
