import GATTClient
import HCICapture
import Testing

@Suite("Handle maps")
struct HandleMapTests {
    private func map(_ text: String) throws(HandleMapError) -> HandleMap { try HandleMap(json: Array(text.utf8)) }

    @Test("handles in hexadecimal or decimal, UUIDs short or long")
    func reads() throws {
        let map = try map(#"{"0x000e": "2a18", "22": "0x2A52", "0X20": "00000001-0002-11e2-9e96-0800200c9a66"}"#)
        #expect(map.uuids[14] == 0x2A18 && map.uuids[22] == 0x2A52)
        #expect(map.uuids[32]?.description == "00000001-0002-11e2-9e96-0800200c9a66")
    }

    @Test("what is wrong is named")
    func errors() {
        #expect(throws: HandleMapError.notAnObjectOfStrings) { try map("[]") }
        #expect(throws: HandleMapError.notAnObjectOfStrings) { try map("") }
        #expect(throws: HandleMapError.notAnObjectOfStrings) { try map(#"{"0x000e": 5}"#) }
        for key in ["", "0x", "e", "0x10000", "65536", "0", "+5", "-1", "0x+5"] {
            #expect(throws: HandleMapError.notAHandle(key)) { try map("{\"\(key)\": \"2a18\"}") }
        }
        #expect(throws: HandleMapError.notAUUID("2a1", handle: 14)) { try map(#"{"0x000e": "2a1"}"#) }
        #expect(throws: HandleMapError.handleTwice(14)) { try map(#"{"0x000e": "2a18", "14": "2a34"}"#) }
    }
}
