import GATTProfiles
import HealthReadings
import Testing

@Suite("values that are no measurements, by name")
struct DescriptionTests {
    @Test(
        "each known characteristic is described with ordered keys",
        arguments: [
            (0x2A08, "EA070B140C1E00", #"{"date_time":"2026-11-20T12:30:00"}"#),
            (0x2A08, "00000000000000", #"{"date_time":null}"#),
            (
                0x2A2B, "EA070B140C1E00 05 80 03",
                #"{"date_time":"2026-11-20T12:30:00","day_of_week":"friday","fractions_256":128,"#
                    + #""adjust_reason":["manual_time_update","external_reference_time_update"]}"#
            ),
            (
                0x2A2B, "EA070B140C1E00 00 00 F0",
                #"{"date_time":"2026-11-20T12:30:00","day_of_week":null,"fractions_256":0,"adjust_reason":[]}"#
            ),
            (0x2A0F, "04 00", #"{"time_zone_minutes":60,"dst_offset_minutes":0}"#),
            (0x2A0F, "80 FF", #"{"time_zone_minutes":null,"dst_offset_minutes":null}"#),
            (0x2A19, "57", #"{"battery_percent":87}"#), (0x2A19, "65", #"{"battery_percent":null}"#),
            (0x2A51, "0204", #"{"features":["sensor_malfunction_detection","multiple_bond"]}"#),
            (
                0x2A49, "2780",
                #"{"features":["body_movement_detection","cuff_fit_detection","#
                    + #""irregular_pulse_detection","multiple_bond"]}"#
            ),
            (
                0x2A23, "0102030405 C0B0A0",
                #"{"manufacturer_identifier":"0504030201","organizationally_unique_identifier":"a0b0c0"}"#
            ),
            (0x2A25, "313233 0000", #"{"serial_number":"123"}"#), (0x2A24, "", #"{"model_number":""}"#),
            (0x2A29, "41 FF 42", "{\"manufacturer_name\":\"A\u{FFFD}B\"}"),
            (
                0x2A52, "06 00 01 06",
                #"{"response":"response_code","number_of_records":null,"request_op_code":1,"result":"racp_no_records_found"}"#
            ),
            (
                0x2A52, "05 00 2C01",
                #"{"response":"number_of_stored_records","number_of_records":300,"request_op_code":null,"result":null}"#
            ),
            (
                0x2A52, "01 03 01 0700",
                #"{"request":"report_stored_records","operator":"greater_than_or_equal_to","filter":"sequence_number","from":7,"to":null}"#
            ),
            (0x2A52, "03 00", #"{"request":"abort_operation","operator":null,"filter":null,"from":null,"to":null}"#),
            (
                0x2A34, "02 0500 03",
                #"{"sequence":5,"carbohydrate":null,"meal":"fasting","tester":null,"health":null,"exercise":null,"medication":null,"hba1c":null}"#
            ),
        ] as [(UInt16, String, String)])
    func described(characteristic: UInt16, octets: String, text: String) throws {
        #expect(try StandardFrameDecoder().describe(characteristic: characteristic, octets: hex(octets))?.text == text)
        #expect(StandardFrameDecoder.knows(characteristic: characteristic))
    }

    @Test("records and unknown characteristics have no description here", arguments: [0x2A18, 0x2A35, 0x2A36, 0x1234])
    func others(characteristic: UInt16) throws {
        #expect(try StandardFrameDecoder().describe(characteristic: characteristic, octets: hex("00")) == nil)
        #expect(StandardFrameDecoder.knows(characteristic: characteristic) == (characteristic != 0x1234))
    }

    @Test(
        "a short value is refused by name",
        arguments: [
            (0x2A08, "EA07", "Date Time (2A08)"), (0x2A19, "", "Battery Level (2A19)"),
            (0x2A23, "01", "System ID (2A23)"),
            (0x2A2B, "EA070B140C1E00 05", "Current Time (2A2B)"),
        ] as [(UInt16, String, String)])
    func short(characteristic: UInt16, octets: String, subject: String) {
        let error = #expect(throws: MalformedFrame.self) {
            try StandardFrameDecoder().describe(characteristic: characteristic, octets: hex(octets))
        }
        #expect(error?.subject == subject)
    }

    @Test("a serial number that had to be repaired says so, and is no identity")
    func faithful() {
        #expect(DeviceInformationString(decoding: hex("313233")).isFaithful)
        #expect(!DeviceInformationString(decoding: hex("31FF33")).isFaithful)
        #expect(DeviceInformationString(decoding: hex("00 00")).text.isEmpty)
    }

    @Test("frames of other formats say nothing")
    func otherFormats() {
        let frame = Frame(
            format: FrameFormat(rawValue: 0x1_2A18), payload: hex("02 0100 EA070B140C1E00 5FB0 11"),
            receivedAt: Instant(seconds: 0), ordinal: 0)
        #expect(StandardFrameDecoder().decode(frame, model: nil) == .nothing)
        #expect(decode(0x2A52, hex("06000101")) == .nothing)
        #expect(decode(0x2A19, hex("57")) == .nothing)
    }
}
