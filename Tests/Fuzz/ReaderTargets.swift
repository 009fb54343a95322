import ISO15693Reader
import NFCPipe

extension FuzzTarget {
    /// What a tag answers, as a reader gives it: with its CRC. Every input is tried with the right CRC too.
    static let tagAnswer = FuzzTarget(
        "tag-answer", longest: 300,
        seeds: { _ in
            let answers: [[UInt8]] = [
                [0, 0, 0x5E, 0x90, 0x25, 0, 0, 0xA0, 7, 0xE0], [0, 0xDF, 0, 0, 1, 1, 2], [1, 0x0F],
                [0, 1, 2, 3, 4, 5, 6, 7, 8],
            ]
            return answers.map { $0 + ISO15693CRC.octets(of: $0) }
        }
    ) { octets in
        let isWhole = octets.count >= 3 && ISO15693CRC.octets(of: octets.dropLast(2)) == Array(octets.suffix(2))
        if let data = try? ISO15693Answer.data(ofFrame: octets) {
            expect(isWhole, "a damaged answer is taken for one")
            expect(data == Array(octets.dropFirst().dropLast(2)), "an answer is not what the tag said")
        }
        let whole = octets + ISO15693CRC.octets(of: octets)
        if octets.isEmpty || octets[0] & 1 == 1 {
            expect((try? ISO15693Answer.data(ofFrame: whole)) == nil, "an error is taken for an answer")
        } else {
            expect((try? ISO15693Answer.data(ofFrame: whole)) == Array(octets.dropFirst()), "an answer is refused")
        }
    }

    /// What a PC/SC reader answers to a transparent exchange.
    static let cardAnswer = FuzzTarget(
        "card-answer", longest: 300,
        seeds: { _ in
            [
                [0xC0, 3, 0, 0x90, 0, 0x92, 1, 0, 0x96, 2, 0, 0, 0x97, 3, 0, 0xAA, 0xBB, 0x90, 0],
                [0xC0, 3, 1, 0x64, 1, 0x90, 0], [0xC0, 3, 0, 0x90, 0, 0x8F, 1, 0, 0x90, 0], [0x6A, 0x81],
                [0x5F, 0x46, 4, 0, 0, 0, 0, 0x97, 0x81, 2, 0, 1, 0x90, 0],
            ]
        }
    ) { octets in
        guard let answer = try? PCSCTransparentAnswer(octets) else { return }
        expect(octets.suffix(2) == [0x90, 0x00], "a failure is taken for an answer")
        if let response = answer.response {
            expect(response.count <= octets.count, "more is answered than has come")
            if let data = try? answer.answer() { expect(data == response, "an answer is not what the reader said") }
        }
    }

    /// The lines between healthrelay and healthrelay-nfc, both ways, cut out of whatever comes.
    static let nfcPipe = FuzzTarget(
        "nfc-pipe", longest: 600,
        words: [
            "open", "exchange", "list", "close", "hello", "opened", "answer", "readers", "closed", "failed",
            "malformed",
            "refused", "not_open", "no_port", "port_in_use", "not_permitted", "port_gone", "silent", "unanswered",
            "library",
            "\t", "\n", "yes", "no", "unknown", "pn532_uart:/dev/ttyACM0:115200",
        ],
        seeds: { _ in
            [
                "hello\t1\t1.8.0\nopened\tyes\tpn532_uart:/dev/ttyACM0\nanswer\t00DF00000101022C94\nclosed\n",
                "failed\tlibrary\t-90\tNFC_ECHIP\nfailed\tport_in_use\t/dev/ttyACM0\t4711\n",
                "readers\tpn53x_usb:001:005\n",
                "open\tpn532_uart:/dev/ttyACM0:115200\nexchange\t1000\t02A107\nlist\nclose\n",
            ].inputs
        }
    ) { octets in
        var (all, pieces) = (NFCLineBuffer(), NFCLineBuffer())
        all.append(octets)
        var (lines, again): ([String], [String]) = ([], [])
        while let line = try? all.next() { lines.append(line) }
        for octet in octets {
            pieces.append(CollectionOfOne(octet))
            while let line = try? pieces.next() { again.append(line) }
        }
        expect(lines == again, "lines depend on how they come")
        for line in lines {
            if let request = try? NFCRequest(line: line) {
                expect((try? NFCRequest(line: request.line)) == request, "a request is not what is written of it")
            }
            if let reply = try? NFCReply(line: line) {
                expect((try? NFCReply(line: reply.line)) == reply, "a reply is not what is written of it")
            }
            if let reader = LibNFCReader(line) {
                expect(LibNFCReader(reader.description) == reader, "a reader is not what is written of it")
            }
        }
    }
}
