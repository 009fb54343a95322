import Foundation
import HealthReadings
import Testing

@Suite("JSON documents")
struct JSONTests {
    @Test("numbers keep their digits and keys their order")
    func digits() throws {
        let value = try #require(ExactDecimal("127.0"))
        let document = JSONValue.object([
            "z": .number(value), "a": .integer(-1), "n": nil, "t": true, "l": .array(["x", 2]),
        ])
        #expect(document.text == #"{"z":127.0,"a":-1,"n":null,"t":true,"l":["x",2]}"#)
    }

    @Test("any text is read back by Foundation as it was written")
    func strings() throws {
        try forAll(2000) { generator in
            let scalars = (0..<Int.random(in: 0...12, using: &generator)).compactMap { _ in
                Unicode.Scalar(
                    UInt32.random(in: 0...(Bool.random(using: &generator) ? 0x7F : 0x10FFFF), using: &generator))
            }
            let text = String(String.UnicodeScalarView(scalars))
            let octets = Data(JSONValue.array([.string(text)]).text.utf8)
            let read = try JSONDecoder().decode([String].self, from: octets)
            return (read.map { Array($0.unicodeScalars) }, [scalars], about: "\(scalars)")
        }
    }
}
