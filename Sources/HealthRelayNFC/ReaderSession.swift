import CNFC
import Glibc
import NFCPipe

/// libnfc and the reader that is open in it.
struct ReaderSession: ~Copyable {
    private var context: OpaquePointer?
    private var device: OpaquePointer?
    private var port: ReaderPort?

    /// Drivers of PN53x chips: those understand the chip's own commands.
    private static let chipDrivers: Set<String> = [
        "acr122_usb", "acr122s", "arygon", "pn532_i2c", "pn532_spi", "pn532_uart", "pn53x_usb",
    ]
    /// Drivers of readers at a serial port.
    private static let serialDrivers: Set<String> = ["acr122s", "arygon", "pn532_uart"]
    /// How long a reader's own command may take, in milliseconds.
    private static let patience: Int32 = 1000

    deinit {
        if let device { nfc_close(device) }
        if let context { nfc_exit(context) }
    }

    mutating func close() {
        if let device { nfc_close(device) }
        device = nil
        port = nil
    }

    /// libnfc, with what is found in the machine's settings and environment overruled: no serial port is ever tried.
    private mutating func library() throws(NFCFailure) -> OpaquePointer {
        if let context { return context }
        setenv("LIBNFC_AUTO_SCAN", "true", 1)
        setenv("LIBNFC_INTRUSIVE_SCAN", "false", 1)
        nfc_init(&context)
        guard let context else { throw Self.failure(NFC_ESOFT) }
        return context
    }

    mutating func list() throws(NFCFailure) -> [String] {
        let library = try library()
        let (most, length) = (16, Int(NFC_BUFSIZE_CONNSTRING))
        let texts = UnsafeMutablePointer<CChar>.allocate(capacity: most * length)
        texts.initialize(repeating: 0, count: most * length)
        defer { texts.deallocate() }
        let count = cnfc_list(library, texts, most)
        return (0..<min(count, most)).map { String(cString: texts + $0 * length) }
    }

    // MARK: Opening

    mutating func open(_ name: String) throws(NFCFailure) -> NFCReply {
        close()
        guard var reader = LibNFCReader(name) else { throw .noPort(name) }
        let library = try library()
        if let path = reader.path {
            // libnfc takes no path with a colon in it, as those of /dev/serial/by-path are.
            let port = try ReaderPort(path, isSerial: Self.serialDrivers.contains(reader.driver))
            reader.port = port.path
            self.port = port
        }
        do throws(NFCFailure) {
            do throws(NFCFailure) {
                return try begin(library, reader, name)
            } catch  where Self.mayPass(error) && !(port?.isGone ?? true) {
                // A reader that was left in the middle of something may still have answered that.
                if let device { nfc_close(device) }
                device = nil
                return try begin(library, reader, name)
            }
        } catch {
            let isGone = port?.isGone ?? false
            close()
            throw isGone ? .portGone : error
        }
    }

    private static func mayPass(_ failure: NFCFailure) -> Bool {
        switch failure {
        case .silent, .library: true
        default: false
        }
    }

    private mutating func begin(
        _ library: OpaquePointer, _ reader: LibNFCReader, _ name: String
    ) throws(NFCFailure) -> NFCReply {
        guard let device = cnfc_open(library, reader.description) else {
            // libnfc does not say why: a port that could be opened has a reader that does not answer.
            let isKnown = reader.path != nil && Self.chipDrivers.contains(reader.driver)
            throw isKnown ? .silent : .noPort(name)
        }
        self.device = device
        try check(nfc_initiator_init(device))
        try check(nfc_device_set_property_bool(device, NP_HANDLE_CRC, false))
        try check(nfc_device_set_property_bool(device, NP_EASY_FRAMING, false))
        let speaks = Self.chipDrivers.contains(reader.driver) ? try speaksISO15693(device) : nil
        return .opened(speaksISO15693: speaks, name: String(cString: nfc_device_get_name(device)))
    }

    /// Whether the reader knows a command that only readers with ISO 15693 have: "are you one" (AA), or a list of such
    /// tags (4A with type 05). A PN532 answers both with its error frame, and works on.
    ///
    /// nil where it could not be asked, or where one cannot tell a refusal from a disturbance.
    private func speaksISO15693(_ device: OpaquePointer) throws(NFCFailure) -> Bool? {
        let (identify, list, version): ([UInt8], [UInt8], [UInt8]) = ([0xAA], [0x4A, 0x01, 0x05], [0x02])
        for command in [identify, list, identify, list] {
            let code = send(device, command)
            if code >= 0 { return true }
            if code == NFC_ENOTIMPL { return nil }
            if port?.isGone ?? false { throw .portGone }
            guard code == NFC_EIO || code == NFC_EINVARG, send(device, version) >= 0 else { return nil }
        }
        return false
    }

    private func send(_ device: OpaquePointer, _ command: [UInt8]) -> Int32 {
        var answer = [UInt8](repeating: 0, count: 264)
        return cnfc_pn53x_command(device, command, command.count, &answer, answer.count, Self.patience)
    }

    // MARK: Asking

    /// A frame's answer, through InCommunicateThru: the reader is told the kind of tag by the two octets before it.
    func exchange(_ frame: [UInt8], milliseconds: UInt16) throws(NFCFailure) -> [UInt8] {
        guard ReadOnlyList.permits(frame) else { throw .refused }
        guard let device else { throw .notOpen }
        let request = [0x80, 0x00] + frame + Self.crc(frame)
        var answer = [UInt8](repeating: 0, count: 264)
        // 0 would be for ever.
        let code = nfc_initiator_transceive_bytes(
            device, request, request.count, &answer, answer.count, Int32(max(1, milliseconds)))
        try check(code)
        return Array(answer.prefix(Int(code)))
    }

    /// ISO/IEC 13239: reflected 8408, preset FFFF, inverted, the low octet first.
    private static func crc(_ octets: [UInt8]) -> [UInt8] {
        var register: UInt16 = 0xFFFF
        for octet in octets {
            register ^= UInt16(octet)
            for _ in 0..<8 { register = register & 1 == 0 ? register >> 1 : register >> 1 ^ 0x8408 }
        }
        return [UInt8(truncatingIfNeeded: ~register), UInt8(truncatingIfNeeded: ~register >> 8)]
    }

    // MARK: Errors

    private func check(_ code: Int32) throws(NFCFailure) {
        guard code < 0 else { return }
        if port?.isGone ?? false { throw .portGone }
        throw Self.failure(code)
    }

    private static func failure(_ code: Int32) -> NFCFailure {
        switch code {
        case NFC_ERFTRANS: .unanswered
        case NFC_ETIMEOUT: .silent
        case NFC_ENOTSUCHDEV: .portGone
        default: .library(code: code, name: names[code] ?? "an error without a name")
        }
    }

    private static let names: [Int32: String] = [
        NFC_EIO: "NFC_EIO, input or output failed", NFC_EINVARG: "NFC_EINVARG, invalid argument",
        NFC_EDEVNOTSUPP: "NFC_EDEVNOTSUPP, not supported by the reader", NFC_EOVFLOW: "NFC_EOVFLOW, buffer overflow",
        NFC_EOPABORTED: "NFC_EOPABORTED, aborted", NFC_ENOTIMPL: "NFC_ENOTIMPL, not implemented",
        NFC_ETGRELEASED: "NFC_ETGRELEASED, target released", NFC_EMFCAUTHFAIL: "NFC_EMFCAUTHFAIL, not authenticated",
        NFC_ESOFT: "NFC_ESOFT, software error", NFC_ECHIP: "NFC_ECHIP, the reader's chip failed",
    ]
}
