import EmulatedReader
import Testing

@testable import ISO15693Reader

/// Readers by their setting, and what is said of each.
@Suite struct ReadersTests {
    @Test("a setting names a reader of libnfc or of PC/SC; anything else is refused before anything is opened")
    func settings() throws {
        let readers = NFCReaders()
        #expect(try readers.reader("pn532_uart:/dev/ttyACM0:115200") is LibNFCTransport)
        #expect(try readers.reader("pcsc:") is PCSCTransport)
        #expect(try readers.reader("pcsc:ACS ACR1552 1S CL Reader") is PCSCTransport)
        for setting in ["", "pcsc", "/dev/ttyACM0", "pn532_uart:/dev/tty\nACM0", "Something: else"] {
            #expect(throws: ISO15693Error.badReaderName(setting)) { try readers.reader(setting) }
        }
    }

    @Test("a configured reader is listed with what it can do, or why not")
    func configured() async throws {
        let emulated = try EmulatedReader()
        let readers = NFCReaders(helper: Helper.path)
        let able = try #require(await readers.list(configured: emulated.setting).first)
        #expect(able.reader == emulated.setting && able.transport == .libnfc)
        #expect(able.iso15693 == true && able.reason == nil && able.name == emulated.openName)
        let other = try readers.reader(emulated.setting)
        #expect(throws: Never.self) { other }
        _ = try? await other.uid()
        let busy = try #require(await readers.list(configured: emulated.setting).first)
        #expect(busy.iso15693 == nil && busy.code == "port_in_use")
        await other.close()
        emulated.change { $0.isPlain = true }
        let plain = try #require(await readers.list(configured: emulated.setting).first)
        #expect(plain.iso15693 == false && plain.code == "reader_cannot_speak_iso15693")
        emulated.unplug()
        let gone = try #require(await readers.list(configured: emulated.setting).first)
        #expect(gone.iso15693 == nil && gone.code == "no_reader")
    }

    @Test("what is published of PC/SC readers is known by their names")
    func names() {
        #expect(KnownReader(name: "ACS ACR1552 1S CL Reader [ACR1552 1S CL PICC] 00 00") == .reads)
        #expect(KnownReader(name: "HID Global OMNIKEY 5022 Smart Card Reader 00 00") == .reads)
        #expect(KnownReader(name: "ACS ACR1552 1S CL Reader [ACR1552 1S CL SAM] 00 01") == .doesNot)
        #expect(KnownReader(name: "ACS ACR122U PICC Interface 00 00") == .doesNot)
        #expect(KnownReader(name: "Yubico YubiKey OTP+FIDO+CCID 00 00") == .unknown)
    }
}
