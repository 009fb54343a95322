import CPCSC

/// A tag at a PC/SC reader, connected.
final class PCSCCard {
    /// How the tag is asked.
    enum Way {
        /// Frames of ISO 15693, in a transparent session.
        case frames
        /// The reader's own commands for reading.
        case commands
    }

    let reader: String
    private(set) var way = Way.commands
    private let service: PCSCService
    private var handle = SCARDHANDLE()
    private var protocols = DWORD()

    /// Connects, and finds out whether the reader forwards frames.
    init(_ service: PCSCService, reader: String) throws(ISO15693Error) {
        (self.service, self.reader) = (service, reader)
        let result = SCardConnect(
            service.context, reader, DWORD(SCARD_SHARE_SHARED), DWORD(SCARD_PROTOCOL_T0 | SCARD_PROTOCOL_T1), &handle,
            &protocols)
        try PCSCService.check(result, reader: reader)
        try begin()
    }

    deinit {
        if way == .frames { _ = try? transmit([0xFF, 0xC2, 0x00, 0x00, 0x02, 0x82, 0x00, 0x00]) }
        SCardDisconnect(handle, DWORD(SCARD_LEAVE_CARD))
    }

    /// A transparent session, and in it ISO 15693-3.
    private func begin() throws(ISO15693Error) {
        way = .commands
        guard try isDone([0xFF, 0xC2, 0x00, 0x00, 0x02, 0x81, 0x00, 0x00]) else { return }
        if try isDone([0xFF, 0xC2, 0x00, 0x02, 0x04, 0x8F, 0x02, 0x02, 0x03]) {
            way = .frames
        } else {
            _ = try transmit([0xFF, 0xC2, 0x00, 0x00, 0x02, 0x82, 0x00, 0x00])
        }
    }

    private func isDone(_ command: [UInt8]) throws(ISO15693Error) -> Bool {
        let octets = try transmit(command)
        guard PCSCStatus.word(of: octets) == 0x9000, let answer = try? PCSCTransparentAnswer(octets) else {
            return false
        }
        return answer.status.map { $0.word == 0x9000 } ?? true
    }

    /// A tag's answer, flags and data; nil where it gave none.
    func exchange(_ request: ISO15693Request) throws(ISO15693Error) -> [UInt8]? {
        switch way {
        case .frames:
            let frame = request.frame
            let object = [0x95, UInt8(frame.count)] + frame
            let octets = try transmit([0xFF, 0xC2, 0x00, 0x01, UInt8(object.count)] + object + [0x00])
            return try PCSCTransparentAnswer(octets).answer()
        case .commands:
            switch request {
            case .inventory:
                guard let uid = try data([0xFF, 0xCA, 0x00, 0x00, 0x00], request) else { return nil }
                guard uid.count == 8 else { throw .malformedAnswer("expected a UID, found \(uid.count) octets") }
                return [0, 0] + (Self.isTurnedRound(uid) ? uid.reversed() : uid)
            case .readSingleBlock(let number): return try block(number, request).map { [0] + $0 }
            case .readMultipleBlocks(let first, let count):
                var octets: [UInt8] = [0]
                for number in Int(first)..<Int(first) + max(1, Int(count)) {
                    guard number <= 0xFF, let block = try block(UInt8(number), request) else { return nil }
                    octets += block
                }
                return octets
            case .systemInformation, .patchInformation, .abbottPatchInformation: throw .readerCannotAsk(request)
            }
        }
    }

    /// Whether a reader gives a UID with its highest octet first: E0, and the maker behind it. In the air's order these come
    /// last. A UID may also end with E0: of two, the one beside the maker of a sensor's chip (Texas Instruments, Abbott) counts.
    private static func isTurnedRound(_ uid: [UInt8]) -> Bool {
        let makers: [UInt8] = [0x07, 0x7A]
        guard uid[0] == 0xE0, uid[7] == 0xE0 else { return uid[0] == 0xE0 }
        return makers.contains(uid[1]) && !makers.contains(uid[6])
    }

    /// One block of eight octets, as sensors have them.
    private func block(_ number: UInt8, _ request: ISO15693Request) throws(ISO15693Error) -> [UInt8]? {
        guard let block = try data([0xFF, 0xB0, 0x00, number, 0x08], request) else { return nil }
        guard block.count == 8 else { throw .malformedAnswer("expected a block of 8 octets, found \(block.count)") }
        return block
    }

    private func data(_ command: [UInt8], _ request: ISO15693Request) throws(ISO15693Error) -> [UInt8]? {
        let octets = try transmit(command)
        guard let word = PCSCStatus.word(of: octets) else {
            throw .malformedAnswer("expected a status, found \(octets.count) octets")
        }
        if PCSCStatus.isUnknownCommand(word) { throw .readerCannotAsk(request) }
        // No information, execution error, memory failure: what readers say of a tag that did not answer.
        if [0x6300, 0x6400, 0x6401, 0x6581, 0x6F00].contains(word) { return nil }
        return try PCSCStatus.data(of: octets)
    }

    /// Sends a command; where somebody else has reset the tag meanwhile, once more.
    private func transmit(_ command: [UInt8]) throws(ISO15693Error) -> [UInt8] {
        for isFirst in [true, false] {
            var answer = [UInt8](repeating: 0, count: Int(MAX_BUFFER_SIZE))
            var length = DWORD(answer.count)
            let result = SCardTransmit(
                handle, cpcsc_head(protocols), command, DWORD(command.count), nil, &answer, &length)
            if isFirst, UInt32(truncatingIfNeeded: result) == CPCSC_RESET_CARD.rawValue {
                try reconnect()
                continue
            }
            try PCSCService.check(result, reader: reader)
            return Array(answer.prefix(Int(length)))
        }
        return []
    }

    private func reconnect() throws(ISO15693Error) {
        let result = SCardReconnect(
            handle, DWORD(SCARD_SHARE_SHARED), DWORD(SCARD_PROTOCOL_T0 | SCARD_PROTOCOL_T1), DWORD(SCARD_LEAVE_CARD),
            &protocols)
        try PCSCService.check(result, reader: reader)
    }
}
