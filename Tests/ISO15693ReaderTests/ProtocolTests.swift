import ISO15693Reader
import NFCPipe
import Testing

/// Frames, answers, and the lines between the programs.
@Suite struct ProtocolTests {
    @Test("requests are the frames of a published radio capture, CRC included")
    func frames() {
        let published: [(ISO15693Request, [UInt8])] = [
            (.patchInformation, [0x02, 0xA1, 0x07, 0xEC, 0xB1]),
            (.readMultipleBlocks(first: 0, count: 3), [0x02, 0x23, 0x00, 0x02, 0xE5, 0x0A]),
            (.readMultipleBlocks(first: 3, count: 3), [0x02, 0x23, 0x03, 0x02, 0x8D, 0x20]),
            (.readMultipleBlocks(first: 42, count: 1), [0x02, 0x23, 0x2A, 0x00, 0xB4, 0xF7]),
        ]
        for (request, octets) in published { #expect(request.frame + ISO15693CRC.octets(of: request.frame) == octets) }
        #expect(
            ISO15693Request.inventory.frame + ISO15693CRC.octets(of: ISO15693Request.inventory.frame) == [
                0x26, 0x01, 0x00, 0xF6, 0x0A,
            ])
        #expect(ISO15693Request.readMultipleBlocks(first: 5, count: 0).frame == [0x02, 0x23, 5, 0])
        #expect(ISO15693Request.abbottPatchInformation.frame == [0x02, 0xA1, 0x7A])
    }

    @Test("an answer gives its data; one with a bit turned is never taken for one")
    func answers() {
        var numbers = SystemRandomNumberGenerator()
        for _ in 0..<200 {
            let data = (0..<Int.random(in: 0...40)).map { _ in UInt8.random(in: 0...255, using: &numbers) }
            let body = [0x00] + data
            var frame = body + ISO15693CRC.octets(of: body)
            #expect(outcome(frame) == .success(data))
            let bit = Int.random(in: 0..<frame.count * 8)
            frame[bit / 8] ^= 1 << (bit % 8)
            #expect(outcome(frame) == .failure(.badCRC))
        }
    }

    @Test("errors of a tag have their code, and short answers say what was expected")
    func errors() {
        let refusal: [UInt8] = [0x01, 0x0F]
        #expect(outcome(refusal + ISO15693CRC.octets(of: refusal)) == .failure(.tag(code: 0x0F)))
        for short: [UInt8] in [[], [0x00], [0x00, 0x78]] {
            guard case .failure(.malformedAnswer(let what)) = outcome(short) else {
                Issue.record("\(short) is an answer")
                continue
            }
            #expect(what.contains("found \(short.count)"))
        }
        let bare: [UInt8] = [0x01]
        guard case .failure(.malformedAnswer) = outcome(bare + ISO15693CRC.octets(of: bare)) else {
            Issue.record("an error without a code is an answer")
            return
        }
    }

    private func outcome(_ frame: [UInt8]) -> Result<[UInt8], ISO15693Error> {
        do throws(ISO15693Error) { return .success(try ISO15693Answer.data(ofFrame: frame)) } catch {
            return .failure(error)
        }
    }

    @Test("what a transparent exchange answers is data, silence, damage or the reader's own error")
    func transparent() throws {
        let head: [UInt8] = [0xC0, 0x03, 0x00, 0x90, 0x00, 0x92, 0x01, 0x00, 0x96, 0x02]
        let whole = head + [0x00, 0x00, 0x97, 0x03, 0x00, 0xAA, 0xBB, 0x90, 0x00]
        #expect(try PCSCTransparentAnswer(whole).answer() == [0x00, 0xAA, 0xBB])
        let damaged = head + [0x01, 0x00, 0x97, 0x03, 0x00, 0xAA, 0xBB, 0x90, 0x00]
        #expect(throws: ISO15693Error.badCRC) { try PCSCTransparentAnswer(damaged).answer() }
        #expect(try PCSCTransparentAnswer([0xC0, 0x03, 0x01, 0x64, 0x01, 0x90, 0x00]).answer() == nil)
        #expect(throws: ISO15693Error.reader(code: 0x6A80, name: "status 6A80")) {
            try PCSCTransparentAnswer([0xC0, 0x03, 0x02, 0x6A, 0x80, 0x90, 0x00]).answer()
        }
        #expect(throws: ISO15693Error.reader(code: 0x6A81, name: "status 6A81")) {
            try PCSCTransparentAnswer([0x6A, 0x81])
        }
        for end in 1..<whole.count - 2 {
            _ = try? PCSCTransparentAnswer(Array(whole[..<end]) + [0x90, 0x00]).answer()
        }
    }

    @Test("what one program writes the other reads, whatever is in it")
    func lines() throws {
        let texts = ["", "pn532_uart:/dev/ttyACM0:115200", "a b", "ä\u{301}\u{1F600}", "-"]
        let octets: [[UInt8]] = [[], [0x00], Array(0...255)]
        var requests: [NFCRequest] = texts.map { .open(reader: $0) } + [.list, .close]
        requests += octets.map { .exchange(frame: $0, milliseconds: .max) }
        for request in requests { #expect(try NFCRequest(line: request.line) == request) }
        var replies: [NFCReply] = [.closed, .readers([]), .readers(texts), .hello(version: 1, libnfc: "1.8.0")]
        replies += octets.map { .answer($0) }
        for speaks in [true, false, nil] { replies.append(.opened(speaksISO15693: speaks, name: "reader")) }
        let failures: [NFCFailure] = [
            .malformed("why"), .refused, .notOpen, .noPort("p"), .portInUse("p", pid: nil), .portInUse("p", pid: 7),
            .notPermitted("p", group: nil), .notPermitted("p", group: "g"), .portGone, .silent, .unanswered,
            .library(code: -90, name: "NFC_ECHIP"),
        ]
        replies += failures.map { .failed($0) }
        for reply in replies { #expect(try NFCReply(line: reply.line) == reply) }
        #expect(try NFCRequest(line: NFCRequest.open(reader: "a\tb\nc").line) == .open(reader: "a b c"))
    }

    @Test("lines come out of a pipe whole, however they came in, and one without an end is refused")
    func pipe() throws {
        let lines = ["hello\t1\t1.8.0", "", "answer\t00", "ä"]
        let octets = lines.flatMap { Array(($0 + "\n").utf8) }
        for size in 1...octets.count {
            var buffer = NFCLineBuffer()
            var found: [String] = []
            for start in stride(from: 0, to: octets.count, by: size) {
                buffer.append(octets[start..<min(start + size, octets.count)])
                while let line = try buffer.next() { found.append(line) }
            }
            #expect(found == lines)
        }
        var endless = NFCLineBuffer()
        endless.append([UInt8](repeating: 0x41, count: NFCLineBuffer.longest + 1))
        #expect(throws: NFCLineError.self) { try endless.next() }
    }

    @Test("a reader's name is driver, port and speed; a path may have colons")
    func names() throws {
        let plain = try #require(LibNFCReader("pn532_uart:/dev/ttyACM0:115200"))
        #expect(plain.driver == "pn532_uart" && plain.path == "/dev/ttyACM0" && plain.speed == 115_200)
        let long = try #require(LibNFCReader("pn532_uart:/dev/serial/by-path/pci-0000:00:14.0-usb-0:1:1.0"))
        #expect(long.path == "/dev/serial/by-path/pci-0000:00:14.0-usb-0:1:1.0" && long.speed == nil)
        let number = try #require(LibNFCReader("pn53x_usb:001:005"))
        #expect(number.path == nil && number.port == "001:005")
        for text in ["pn532_uart:/dev/ttyACM0:115200", "pn53x_usb", "pn532_i2c:/dev/i2c-1"] {
            #expect(LibNFCReader(text)?.description == text)
        }
        for text in ["", ":", "/dev/ttyACM0", "PN532:/dev/x", "a b:c"] { #expect(LibNFCReader(text) == nil) }
    }

    @Test("every error has a code of its own in snake case, a line and, where one can do something, a hint")
    func words() {
        let errors: [ISO15693Error] = [
            .noTag, .otherTag, .tagLeft, .tagSilent, .tag(code: 0x0F), .badCRC, .malformedAnswer("x"),
            .badReaderName("x"), .noReader(nil), .portInUse("x", pid: 1), .notPermitted("x", mend: "y"), .portGone,
            .readerSilent, .cannotSpeakISO15693, .readerCannotAsk(.patchInformation), .reader(code: -1, name: "x"),
            .helperMissing("x"), .helperDied(signal: 9), .helperFailed("x"), .noPCSCService, .cancelled,
        ]
        #expect(Set(errors.map(\.code)).count == errors.count)
        for error in errors {
            #expect(error.code.allSatisfy { $0.isLowercase || $0.isNumber || $0 == "_" })
            #expect(!error.description.contains("\n") && !error.description.isEmpty)
        }
    }
}
