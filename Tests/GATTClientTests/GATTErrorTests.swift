import Testing

@testable import GATTClient

@Suite struct GATTErrorTests {
    @Test(
        "attribute errors have the specification's names",
        arguments: [
            (0x02, "read not permitted (0x02)"), (0x05, "insufficient authentication (0x05)"),
            (0x0F, "insufficient encryption (0x0F)"), (0x80, "procedure already in progress (0x80)"),
            (0x81, "client characteristic configuration improperly configured (0x81)"),
            (0xFD, "client characteristic configuration improperly configured (0xFD)"),
            (0xFE, "procedure already in progress (0xFE)"), (0xFF, "out of range (0xFF)"), (0x99, "error (0x99)"),
        ] as [(UInt8, String)])
    func names(code: UInt8, name: String) {
        #expect(GATTError.name(ofAttributeError: code) == name)
        #expect(GATTError.attribute(code).description == "the device refused: \(name)")
    }

    @Test("every code of the Core Specification has a name, and every error one line")
    func complete() {
        for code: UInt8 in 0x01...0x13 { #expect(!GATTError.name(ofAttributeError: code).hasPrefix("error")) }
        for code in UInt8.min ... .max {
            #expect(GATTError.name(ofAttributeError: code).hasSuffix(")"))
        }
        #expect(GATTError.noSuchCharacteristic(0x2A18).description == "the device has no characteristic 2a18")
        for error in [GATTError.disconnected, .timedOut] { #expect(!error.description.contains("\n")) }
    }
}
